"""A step log played back, as the hub would have seen the job: the same Snapshots, the same detectors.

Pure but for the log it is given. Time goes by steps, and no host's clock is compared with another's. What only a live
job shows (processes, sockets, cards) is not in a log: the detectors that need it have nothing to say.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from zmon import detectors
from zmon.detectors.suppression import suppress
from zmon.hub.config import HubConfig
from zmon.hub.job_state import JobState
from zmon.job.time_account import Account
from zmon.offline.analyze.rows import StepTable
from zmon.schema.agent import AgentReport, AgentStatus
from zmon.schema.finding import Finding
from zmon.schema.host import HostSample
from zmon.schema.rank import RankState
from zmon.schema.snapshot import Snapshot
from zmon.schema.step import Measures, OpTotals, StepRecord


@dataclass
class Spell:
    """A finding, and the steps it held for."""

    finding: Finding
    attempt: int
    first_step: int
    last_step: int


@dataclass
class Attempt:
    """One start of the job, played back."""

    number: int
    book: JobState
    ranks: int  # that have records, of world_size
    world_size: int
    num_steps: int  # in the log, on any rank
    spells: list[Spell]


def play(log: StepTable, attempt: int, judges: Sequence[detectors.Detector] = detectors.ALL) -> Attempt:
    """Every look of one attempt, and what each detector said."""
    ranks = sorted(rank for number, rank in log.records if number == attempt)
    steps = sorted({step for rank in ranks for step in log.records[attempt, rank]})
    states = tuple(_state(log, attempt, rank, max(ranks) + 1) for rank in ranks)
    book = JobState({s.run_uid for s in states}, max(ranks) + 1, Account(log.job_id))
    played = Attempt(attempt, book, len(ranks), max(ranks) + 1, len(steps), [])
    open_: dict[tuple[str, str, tuple[int, ...], tuple[str, ...]], Spell] = {}
    for snapshot in _looks(log, attempt, states, steps, played.book):
        said = {}
        spoken = suppress({detector.name: detector.detect(snapshot) for detector in judges} if log.blames else {})
        for name, findings in spoken.findings.items():
            for finding in findings:
                said[name, finding.cause, finding.ranks, finding.hosts] = finding
        for key, finding in said.items():
            spell = open_.get(key)
            if spell is None:
                spell = open_[key] = Spell(finding, attempt, snapshot.steps[0].step, 0)
                played.spells.append(spell)
            spell.finding, spell.last_step = finding, snapshot.steps[-1].step
        for key in [key for key in open_ if key not in said and key[0] not in spoken.held]:
            del open_[key]
    return played


def _looks(
    log: StepTable, attempt: int, states: tuple[RankState, ...], steps: list[int], book: JobState
) -> Iterator[Snapshot]:
    some = next(iter(log.records[attempt, states[0].rank].values()))
    typical = statistics.median(r.duration for r in log.records[attempt, states[0].rank].values())
    between = max(1, round(HubConfig.interval_seconds / typical / log.every))
    every = 1
    while between / every > HubConfig.about_records:
        every *= 2
    agents = tuple(AgentStatus(host, host, True, 0.0) for host in sorted({s.host for s in states}))
    missing = tuple(sorted(set(range(states[0].world_size)) - {s.rank for s in states}))
    for begin in range(0, len(steps), between):
        looked = [step for step in steps[begin : begin + between] if step % (every * log.every) == 0]
        told = {s.run_uid: _of(log, attempt, s.rank, looked, every) for s in states}
        at = next((record.start for records in told.values() for record in records), some.start)
        now = tuple(replace(s, step=steps[min(begin + between, len(steps)) - 1]) for s in states)
        snapshot = Snapshot(log.job_id, at, attempt, states[0].world_size, now, missing, (), agents)
        report = AgentReport("log", at, "", now, HostSample(), (), {log.job_id: told})
        if (full := book.add(snapshot, [report])).steps:
            yield full


def _of(log: StepTable, attempt: int, rank: int, steps: list[int], every: int) -> tuple[StepRecord, ...]:
    """A rank's records of these steps, each with the mean of those since the one before it."""
    there = log.records[attempt, rank]
    told = []
    for step in steps:
        since = [there.get(step - past * log.every) for past in range(every)]
        whole = [record.measures for record in since if record is not None]
        if step in there:
            told.append(replace(there[step], mean=_mean(whole) if every > 1 and len(whole) == every else None))
    return tuple(told)


def _mean(steps: Sequence[Measures]) -> Measures:
    """What a detector compares of it; of one step at least."""
    number = len(steps)
    phases, ops = {p for m in steps for p in m.phases}, {op for m in steps for op in m.ops}
    totals = {op: [m.ops.get(op, OpTotals()) for m in steps] for op in ops}
    return Measures(
        {phase: sum(m.phases.get(phase, 0.0) for m in steps) / number for phase in phases},
        {
            op: OpTotals(
                exposed_seconds=sum(t.exposed_seconds for t in of) / number,
                sent_bytes=round(sum(t.sent_bytes for t in of) / number),
                received_bytes=round(sum(t.received_bytes for t in of) / number),
            )
            for op, of in totals.items()
        },
        _known_mean([m.samples for m in steps]),
        _known_mean([m.lookups for m in steps]),
    )


def _known_mean(amounts: Sequence[int | None]) -> int | None:
    known = [amount for amount in amounts if amount is not None]
    return round(sum(known) / len(known)) if len(known) == len(amounts) else None


def _state(log: StepTable, attempt: int, rank: int, world_size: int) -> RankState:
    """A rank of which nothing is known but its steps: it trains, and is never overdue."""
    return RankState(
        job_id=log.job_id, attempt=attempt, run_uid=f"{attempt}-{rank}", start=0.0, rank=rank, local_rank=rank,
        world_size=world_size, host=log.hosts[attempt, rank], pid=0, device="unknown", backend=None, launcher="",
        restart_count=attempt, max_restarts=None, labels={}, alive=True, process_state=None, exit_status=None,
        gone_seconds=None, stopped_seconds=None, activity="train", activity_seconds=0.0, phase="other", step=0,
        step_seconds=0.0, state_seconds=0.0, in_flight=None, sequences={}, lease_seconds=None, overdue_seconds=0.0,
        steps=0, step_seconds_total=0.0, measures=Measures(), memory=None, report={}, last_words=None,
        last_step_time=None, last_checkpoint_time=None, overhead_seconds=0.0, dropped_records=0, resident_bytes=None,
    )  # fmt: skip
