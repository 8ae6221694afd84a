"""Factories of test data. The defaults make a healthy rank that trains, so a test sets only the fields that matter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import msgspec

from tests.steps import Measures, OpTotals, StepRecord, aligned, steps_of, totals_of
from zmon.job.history import History
from zmon.schema.aligned_step import AlignedStep
from zmon.schema.api.agent import AgentReport
from zmon.schema.ended_launch import LaunchEnd
from zmon.schema.evidence import AnyEvidence, StallEvidence
from zmon.schema.finding import Finding
from zmon.schema.flight import FlightRecord, PendingCollective
from zmon.schema.host import HostSample, HostWindow
from zmon.schema.job import EndedJob
from zmon.schema.job_snapshot import AgentStatus, Snapshot
from zmon.schema.names import OPS
from zmon.schema.plan import Plan
from zmon.schema.rank import InFlight, LastWords, RankState

JOB = "job"
NOW = 1_800_000_000.0  # unix seconds on the hub's host
DISCONNECT = "[../third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:9401"


def measures(
    phases: dict[str, float] | None = None, ops: dict[str, float] | None = None, **numbers: int | None
) -> Measures:
    """Return measures with seconds by phase and exposed seconds by op; each op has one call and 8 bytes each way."""
    totals = {op: OpTotals(1, seconds, seconds, 8, 8) for op, seconds in (ops or {}).items()}
    return Measures(dict(phases or {}), totals, **numbers)


def step_record(
    step: int = 1,
    phases: dict[str, float] | None = None,
    ops: dict[str, float] | None = None,
    start: float = 0.0,
    samples: int | None = 32,
) -> StepRecord:
    """Return one step of one rank; it lasts as long as its phases and exposed ops together."""
    phases = {"forward": 0.010} if phases is None else phases
    ops = {"all_to_all": 0.010} if ops is None else ops
    duration = sum(phases.values()) + sum(ops.values())
    return StepRecord(step, start, duration, measures(phases, ops, samples=samples))


def words(kind: str, type_: str = "", message: str = "", time: float = NOW) -> LastWords:
    """Return the last words of a rank."""
    return LastWords(kind, type_, message, time)


def rank_state(rank: int = 0, **changes: Any) -> RankState:
    """Return a healthy rank of four, in the middle of step 100."""
    healthy = RankState(
        job_id=JOB, attempt=0, run_uid=f"uid-{rank}", start=NOW - 60, rank=rank, local_rank=rank, world_size=4,
        host="node-a", pid=1000 + rank, device="cpu", backend="gloo", launcher="900@1", restart_count=0,
        max_restarts=0, labels={}, alive=True, process_state="S", exit_status=None, gone_seconds=None,
        stopped_seconds=None, activity="train", activity_seconds=50.0, phase="forward", step=100,
        step_seconds=0.010, state_seconds=0.005, in_flight=None, sequences={"0": 300}, lease_seconds=1.5,
        overdue_seconds=0.0, steps=100, step_seconds_total=2.0,
        totals=totals_of(measures({"forward": 1.0}, {"all_to_all": 1.0})), report={}, last_words=None,
        last_step_time=NOW, last_checkpoint_time=None, overhead_seconds=0.001, dropped_records=0,
        resident_bytes=200_000_000,
    )  # fmt: skip
    if "start" in changes and "open_seconds" not in changes:  # else its age would contradict its start
        state = replace(healthy, **changes)
        trained = state.step_seconds_total + sum(state.between_seconds.values())
        changes["open_seconds"] = max(0.0, NOW - state.start - trained)
    return replace(healthy, **changes)


def waiting(rank: int, seconds: float = 5.0, op: str = "all_to_all", **changes: Any) -> RankState:
    """Return a rank that has been inside a collective for this time; after 1.5 s it has exceeded its lease."""
    inside = InFlight(op, "0", 301, 4096, seconds)
    times = {"step_seconds": seconds, "state_seconds": seconds, "overdue_seconds": max(0.0, seconds - 1.5)}
    return rank_state(rank, **{"in_flight": inside, **times, **changes})


def dead(rank: int, gone: float = 1.0, **changes: Any) -> RankState:
    """Return a rank whose process ended `gone` seconds ago, by default without last words or exit status.

    Last words have their age by the clock of the host, which agrees with the hub's.
    """
    last_words = changes.get("last_words")
    state = {"alive": False, "process_state": None, "gone_seconds": gone}
    return rank_state(rank, **{**state, "last_words_seconds": last_words and NOW - last_words.time, **changes})


def killed(rank: int, gone: float = 1.0, **changes: Any) -> RankState:
    """Return a rank that SIGKILL ended."""
    return dead(rank, gone, **{"exit_status": "signal SIGKILL", **changes})


def raised(rank: int, gone: float = 1.0, message: str = "bad batch 17", **changes: Any) -> RankState:
    """Return a rank that its own exception ended."""
    last_words = words("exception", "builtins.ValueError", message, NOW - gone)
    return dead(rank, gone, **{"exit_status": "exit code 1", "last_words": last_words, **changes})


def disconnected(rank: int, gone: float = 1.0, **changes: Any) -> RankState:
    """Return a rank that ended because the death of another rank broke its connection."""
    last_words = words("exception", "builtins.RuntimeError", DISCONNECT, NOW - gone)
    return dead(rank, gone, **{"exit_status": "exit code 1", "last_words": last_words, **changes})


def terminated(rank: int, gone: float = 1.0, **changes: Any) -> RankState:
    """Return a rank that the launcher's SIGTERM ended."""
    last_words = words("signal", "SIGTERM", 'File "train.py", line 12 in main', NOW - gone)
    return dead(rank, gone, **{"exit_status": "signal SIGTERM", "last_words": last_words, **changes})


def interrupted(rank: int, gone: float = 1.0, **changes: Any) -> RankState:
    """Return a rank that Ctrl-C ended."""
    last_words = words("exception", "builtins.KeyboardInterrupt", "", NOW - gone)
    return dead(rank, gone, **{"exit_status": "signal SIGINT", "last_words": last_words, **changes})


def finished(rank: int, gone: float = 1.0, **changes: Any) -> RankState:
    """Return a rank that finished its script."""
    last_words = words("exit", "", "", NOW - gone)
    ended = {"exit_status": "exit code 0", "last_words": last_words, "activity": "done", "lease_seconds": None}
    return dead(rank, gone, **{**ended, **changes})


def pending(sequence: int, name: str = "nccl:all_reduce", group: str = "nccl:0", **changes: Any) -> PendingCollective:
    """Return one operation of a flight record; by default it is NCCL's, issued and not started."""
    word = name.rpartition(":")[2].lstrip("_")
    op = next((op for op in OPS if word.startswith(op)), word)
    return replace(
        PendingCollective(group, sequence, op, name, 4096, ((1024,),), ("Float",), 5.0, "scheduled"), **changes
    )


def flight(*open_: PendingCollective, **last: int) -> FlightRecord:
    """Return a flight record: the pending operations, and the last sequence that is done by group of NCCL."""
    return FlightRecord(
        open_, len(open_), {f"nccl:{group}": sequence for group, sequence in last.items()} or {"nccl:0": 300}
    )


def agent_status(host: str = "node-a", silent: float = 0.0) -> AgentStatus:
    """Return the hub's view of an agent that has been silent for this time; it answers if the time is 0."""
    return AgentStatus(
        url=f"http://{host}:9780",
        host=host,
        reachable=silent == 0.0,
        silent_seconds=silent,
        error="Connection refused" if silent else None,
    )


def snapshot(
    *ranks: RankState,
    time: float = NOW,
    unwatched: Iterable[RankState] = (),
    agents: Iterable[AgentStatus] | None = None,
    hardware: Iterable[HostWindow] = (),
    flights: dict[int, FlightRecord] | None = None,
    steps: tuple[AlignedStep, ...] = (),
    earlier_ends: Iterable[LaunchEnd] = (),
    waiters: Iterable[int] = (),
) -> Snapshot:
    """Return the snapshot of a job of these ranks; by default all of its hosts have an agent that answers."""
    unwatched = tuple(unwatched)
    known = (*ranks, *unwatched)
    reported = {r.rank for r in known}
    return Snapshot(
        job_id=known[0].job_id,
        time=time,
        attempt=known[0].attempt,
        world_size=known[0].world_size,
        ranks=tuple(sorted(ranks, key=lambda r: r.rank)),
        missing=tuple(rank for rank in range(known[0].world_size) if rank not in reported),
        unwatched=unwatched,
        agents=tuple(agents) if agents is not None else tuple(agent_status(h) for h in {r.host for r in ranks}),
        hardware=tuple(hardware),
        flights=flights or {},
        steps=steps,
        earlier_ends=tuple(earlier_ends),
        waiters=frozenset(waiters),
    )


def job_steps(
    number: int = 64, *ranks: dict[str, Any], first: int = 1, stands_for: int = 1, **of_all_ranks: Any
) -> tuple[AlignedStep, ...]:
    """Return equal steps of a job from the arguments of `step_record` by rank; by default of four equal ranks.

    `of_all_ranks` has the arguments that are the same for all ranks.
    """
    specs = ranks or ({},) * 4
    example = aligned(first, [step_record(first, **{**of_all_ranks, **rank}) for rank in specs], stands_for)
    return tuple(replace(example, step=step) for step in range(first, first + number * stands_for, stands_for))


def plan(*tables: tuple[str, ...], **columns: Any) -> Plan:
    """Return a plan for ranks with these tables; by default four ranks with one table each. All amounts are equal."""
    tables = tables or (("t0",), ("t1",), ("t2",), ("t3",))
    equal = {"lookups": 1000, "sent_bytes": 60_000, "received_bytes": 60_000, "seconds": 0.01, "memory_bytes": 10**9}
    amounts = {name: (value,) * len(tables) for name, value in equal.items()}
    return replace(Plan(**amounts, tables=tables, num_tables=tuple(map(len, tables)), totals={}), **columns)


def agent_report(
    *ranks: RankState,
    host: str = "node-a",
    records: Mapping[str, Mapping[str, Sequence[StepRecord]]] = MappingProxyType({}),  # by job id and run uid
    **changes: Any,
) -> AgentReport:
    """Return the answer of one agent."""
    steps = {job_id: (steps_of(of_job),) for job_id, of_job in records.items()}
    return replace(AgentReport(host, NOW, "0.1.0", ranks, HostSample(), (), steps), **changes)


def add_records(history: History, records: Mapping[int, Sequence[StepRecord]]) -> list[AlignedStep]:
    """Add records by rank; return the steps that are complete now."""
    steps = steps_of({str(rank): of_rank for rank, of_rank in records.items()})
    return history.add([steps], {str(rank): rank for rank in records})


def evidence(**fields: Any) -> StallEvidence:
    """Return evidence of a stall with these fields, written as in JSON."""
    return msgspec.convert(fields, StallEvidence)


def opened_id(fault: str = "f1", time: float = NOW) -> str:
    """Return the id of the finding that opened at that time about a fault."""
    return f"{fault}-{int(time):x}"


def finding(**changes: Any) -> Finding:
    """Return a critical finding about rank 2; `evidence` may be written as in JSON."""
    given = changes.pop("evidence", {"pids": [1002]})
    if isinstance(given, dict):
        given = msgspec.convert(given, AnyEvidence)
    frozen = Finding(
        id="f1", job_id=JOB, detector="stall", cause="rank_frozen", severity="critical", ranks=(2,), hosts=("node-a",),
        step=100, onset=NOW - 2, detected=NOW, confidence=0.97, summary="rank 2 on node-a froze", detail="kill -CONT",
        runbook="docs/runbooks.md#rank_frozen",
    )  # fmt: skip
    return replace(frozen, evidence=given, **changes)


def ended_job(**changes: Any) -> EndedJob:
    """Return the end of a job that an exception of rank 2 ended, an hour ago."""
    end = EndedJob(
        time=NOW - 3600, attempt=0, step=118, finding="f9", cause="rank_exited", severity="critical", ranks=(2,),
        hosts=("node-1",), summary="rank 2 on node-1 exited at step 118: ValueError: bad sample",
        detail="Read the end of rank 2's log", runbook="docs/runbooks.md#rank_exited",
    )  # fmt: skip
    return replace(end, **changes)
