"""Build a hub after some passes: jobs, findings of every detector, incidents, and faults of the hub itself."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tests.build import (
    JOB,
    NOW,
    agent_report,
    agent_status,
    dead,
    evidence,
    finding,
    flight,
    opened_id,
    pending,
    plan,
    raised,
    rank_state,
    snapshot,
    step_record,
    waiting,
)
from tests.detectors.slow.slow_jobs import healthy_steps, hot, job, later_steps, with_slow_rank
from tests.detectors.slow.slower_jobs import HEALTHY, loading, steps_for
from tests.detectors.slow.slower_jobs import job as of_parts
from tests.detectors.slow.uneven_jobs import SKEWED_STEPS
from tests.hub.incidents.build import EVIDENCE, made
from tests.metrics.scene import FULL_HOST, FULL_RANK, LOST_GPU, SOURCES
from tests.scaling.test_fit import point
from tests.steps import StepRecord
from zmon.detectors import ALL
from zmon.detectors.suppression import suppress
from zmon.hub import Hub, HubConfig
from zmon.hub.baseline_store import FOLDER, BaselineStore
from zmon.hub.incidents import CapsuleStore
from zmon.scaling.peaks import DevicePeaks
from zmon.schema.finding import Finding
from zmon.schema.host import HostSample, HostWindow, TcpSample
from zmon.schema.incident import TimelineEvent
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.rank import LastWords

AGENTS = ("http://node-a:9780", "http://node-b:9780", "http://node-c:9780")
LABELS = {"name": "dlrm", "owner": "ann"}
PROCESSORS = "Xeon, 2 processors"
PEAKS = {PROCESSORS: DevicePeaks({"float32": 1e12}, 1e11, "by hand")}
DECLARED = {"device_name": PROCESSORS, "flops_source": "declared", "flops_dtypes": {"float32": 1.0}}


def training(**changes: object) -> Snapshot:
    """Return a job that trains on two hosts; one rank fills every field, one is unwatched."""
    full = replace(
        FULL_RANK, labels=LABELS, last_words=LastWords("exception", "builtins.ValueError", "bad batch", NOW - 1.0),
        exit_status="exit code 1", blocked_seconds=1.0, stopped_seconds=2.0, leaving_seconds=1.0, max_restarts=3,
        **DECLARED,
    )  # fmt: skip
    between = {"init": 12.0, "eval": 3.0}
    first = rank_state(0, labels=LABELS, report={"loss": 0.5, "auc": None}, between_seconds=between, **DECLARED)
    away = rank_state(3, host="node-b", labels=LABELS, **DECLARED)
    agents = [agent_status(), agent_status("node-b", 12.0)]
    state = snapshot(first, full, rank_state(2, labels=LABELS, **DECLARED), unwatched=[away], agents=agents)
    return replace(state, **changes)  # type: ignore[arg-type]


def stalled() -> Snapshot:
    """Return another job whose rank 2 is stopped; the others wait for it and have flight records."""
    saved = NOW - 30.0
    stopped = rank_state(2, process_state="T", stopped_seconds=2.0, step_seconds=2.0, last_checkpoint_time=saved)
    others = [waiting(rank, 5.0) for rank in (0, 1, 3)]
    flights = {rank: flight(pending(301)) for rank in (0, 1, 3)}
    return with_job_id("stuck", snapshot(*others, stopped, flights={**flights, 2: flight()}))


def with_job_id(name: str, state: Snapshot) -> Snapshot:
    """Return the same snapshot under another job id."""
    ranks, unwatched = (tuple(replace(r, job_id=name) for r in group) for group in (state.ranks, state.unwatched))
    return replace(state, job_id=name, ranks=ranks, unwatched=unwatched)


def faulty_jobs() -> Iterator[Snapshot]:
    """Yield jobs so that each detector reports one of them."""
    yield stalled()
    healthy = [rank_state(rank) for rank in range(4)]
    yield with_job_id("crashed", snapshot(raised(1), *(waiting(rank) for rank in (0, 2, 3))))
    slow = job(healthy_steps(), later_steps(20, *with_slow_rank(2, forward=0.095)), hardware=hot(2, "hw_thermal"))
    yield with_job_id("slow", slow)
    yield with_job_id("slower", of_parts(HEALTHY, steps_for(60, exchange=0.150), ranks=healthy))
    yield with_job_id("uneven", replace(snapshot(*healthy), steps=tuple(SKEWED_STEPS)))
    yield with_job_id("starved", replace(of_parts(loading(0.040), ranks=healthy), baseline=None))
    diverged = [rank_state(r, step=1000, steps=1000, step_seconds_total=20.0, report={"loss": None}) for r in range(4)]
    yield with_job_id("diverged", replace(snapshot(*diverged), not_finite={"loss": 100}))
    card = replace(LOST_GPU, lost=False)
    failing = HostWindow("node-a", 60.0, HostSample(gpus=(card,)), HostSample(gpus=(LOST_GPU,)), frozenset({"GPU-2"}))
    yield with_job_id("failing", snapshot(*healthy, hardware=[failing]))
    watched, away = rank_state(0, activity_seconds=60.0), rank_state(2, host="node-b", activity_seconds=60.0)
    agents = [agent_status(), agent_status("node-b", 12.0)]
    yield with_job_id("unseen", snapshot(watched, unwatched=[away], agents=agents))


def detected_findings() -> Iterator[tuple[Finding, bool]]:
    """Yield the findings of all detectors, and True if they are separate faults."""
    for state in faulty_jobs():
        remaining = suppress({detector.name: detector.detect(state) for detector in ALL})
        for detector in ALL:
            for new_finding in remaining.findings[detector.name]:
                yield new_finding, detector.separate


def fill_journal(hub: Hub) -> None:
    """Fill the journal with findings of every detector: one is updated, one has later evidence, one is over."""
    for new_finding, separate in detected_findings():
        hub.journal.open_or_update(new_finding, NOW, separate)
    (stall,) = hub.journal.active_of("stuck", "stall")
    hub.journal.open_or_update(replace(stall, cause="unknown", severity="critical", summary="it is worse now"), NOW + 1)
    hub.journal.attach(stall.id, evidence(**EVIDENCE))
    over = finding(
        id="0ver", op="all_to_all", sequence=301, lost_gpu_hours=0.4, detected=NOW - 100, onset=NOW - 102,
        evidence={"pids": [1002], **EVIDENCE},
    )  # fmt: skip
    hub.journal.open_or_update(over, NOW - 100)
    for now in (NOW - 50, NOW - 40):
        hub.journal.resolve(JOB, "stall", now)
    (filed,) = (f for f in hub.journal.all() if f.id == opened_id("0ver", NOW - 100))
    # The journal drops the bulky evidence of a finding that has a capsule.
    hub.journal.record_capsule(replace(filed, capsule="incidents/0ver"))
    late = finding(
        id="refined", detector="straggler", cause="unknown", ranks=(1,), detected=NOW - 90, severity="info",
        evidence={"num_steps": 64, "step_seconds": 0.5, "saved_seconds": 0.1},
    )  # fmt: skip
    hub.journal.open_or_update(late, NOW - 90)
    better = replace(late, cause="compute_straggler", ranks=(2,), hosts=("node-c",), severity="warning")
    for now in (NOW - 80, NOW - 79, NOW - 77, NOW - 75):
        hub.journal.open_or_update(better, now)


def fill_incidents(folder: CapsuleStore) -> None:
    """Write an active incident with all that a capsule can hold, and one that is over."""
    nics, tcp = FULL_HOST.nics or (), TcpSample(3, ())
    earlier = HostSample(nics=tuple(replace(nic, received_bytes=1, transmitted_bytes=2) for nic in nics), tcp=tcp)
    window = HostWindow("node-a", 60.0, earlier, FULL_HOST, frozenset({"eth0"}))
    about = finding(id="abc1", evidence=EVIDENCE, op="all_to_all", sequence=301, capsule="incidents/abc1")
    gone = dead(3, last_words=LastWords("signal", "SIGTERM", "File train.py", NOW), exit_status="signal SIGTERM")
    unwatched = rank_state(1, host="node-b")
    state = snapshot(rank_state(2, process_state="T"), waiting(0), gone, unwatched=[unwatched], hardware=[window])
    whole, rows = made(about, state, left_out=("the hardware of node-b: no agent answered for it at that time",))
    clock = TimelineEvent(NOW - 3, "Xid 79", "node-a", "node-a's clock is 2.0 s ahead: corrected")
    folder.write(replace(whole, timeline=(clock, *whole.timeline)), rows)
    over = finding(id="abd2", onset=NOW - 60, detected=NOW - 59, resolved=NOW - 10, lost_gpu_hours=0.4)
    folder.write(*made(over))


def hub(data_dir: Path) -> Hub:
    """Return the hub; of its agents one answers, one is silent, and one never answered."""
    sizes = [point(ranks, samples) for ranks, samples in ((1, 32), (4, 128), (4, 64), (8, 256))]
    points = [replace(size, half_width_seconds=0.001, processors_per_host=16) for size in sizes]
    BaselineStore(data_dir / FOLDER).record("dlrm", *points)
    new_hub = Hub(HubConfig(AGENTS, data_dir))
    a, b, _ = new_hub.links
    a.record_report(agent_report(rank_state(0), sample=FULL_HOST, sources=SOURCES))
    b.record_report(agent_report(rank_state(3), host="node-b"))
    b.record_failure("cannot reach http://node-b:9780: Connection refused")
    fill_journal(new_hub)
    fill_incidents(new_hub.incidents.store)
    young = replace(snapshot(*map(rank_state, range(2, 4)), time=NOW), missing=(0, 1))
    new_hub.snapshots = (trained(new_hub), with_job_id("fresh", young), stalled())
    new_hub.errors.texts = {("straggler", JOB): "ValueError: it fails"}
    new_hub.pass_seconds, new_hub.last_pass_time = 0.01, NOW - 1
    new_hub._passed_at = time.monotonic()
    return new_hub


def trained(hub_: Hub) -> Snapshot:
    """Return the job that trains as the hub knows it after a start, 300 steps and an agent that fell silent."""
    now = training()
    whole = replace(now, ranks=now.reported_ranks, unwatched=(), time=NOW - 3)
    start = replace(whole.reported_ranks[0], steps=0, step_seconds_total=0.0, open_seconds=0.0)
    job_state = hub_.job_states.state_of(now)
    job_state.add(replace(whole, ranks=(start, *whole.ranks[1:]), time=NOW - 9), [])
    records = {JOB: {r.run_uid: tuple(map(working_step, range(1, 301))) for r in whole.ranks}}
    report = agent_report(*whole.ranks, records=records, plans={"uid-0": plan(totals={"samples_per_second": 5.0})})
    job_state.add(whole, [report])
    job_state.account_utilization(whole, PEAKS)
    return job_state.add(now, [])


def working_step(step: int) -> StepRecord:
    """Return a step with operations and memory traffic."""
    record = step_record(step)
    return replace(record, measures=replace(record.measures, flops=10**9, memory_traffic_bytes=10**7))
