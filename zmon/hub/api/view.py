"""The view of a job: everything that the CLI and the dashboard show about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from zmon.hub.job_state import JobStates
from zmon.job.progress import progress
from zmon.schema.curve import Efficiency
from zmon.schema.finding import Finding
from zmon.schema.job import EXITED, ExpectedStep, JobView
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.names import SAMPLES_SOURCES, in_order
from zmon.schema.unknown import Unknown
from zmon.stats import quantile

_RESTARTING = ("rank_exited", "crash_loop")  # after these the living ranks may start again: they need not stand still


def view(snapshot: Snapshot, job_states: JobStates, active: Sequence[Finding]) -> JobView:
    """Return the view of a job; `active` are its active findings."""
    lead = snapshot.reported_ranks[0]
    state = job_state(snapshot, active)
    hub_state = job_states.state_of(snapshot)
    account = hub_state.account
    utilization = hub_state.utilization(snapshot.reported_ranks)
    efficiency, expected = job_states.baselines.compare(snapshot, state)
    step = max(r.step for r in snapshot.reported_ranks)
    return JobView(
        job_id=snapshot.job_id,
        attempt=snapshot.attempt,
        world_size=snapshot.world_size,
        ranks_seen=len(snapshot.ranks),
        state=state,
        step=step,
        step_seconds=quantile(hub_state.time.recent_seconds, 0.5),
        step_seconds_p95=quantile(hub_state.time.recent_seconds, 0.95),
        samples_per_second=hub_state.time.samples_per_second,
        report=lead.report,
        time=account.causes,
        gpu_seconds=account.gpu_seconds,
        goodput_ratio=account.goodput_ratio,
        goodput_unknown=account.doubt,
        hosts=tuple(sorted({r.host for r in snapshot.reported_ranks})),
        labels=lead.labels,
        findings=tuple(f.id for f in active),
        efficiency=efficiency if isinstance(efficiency, Efficiency) else None,
        efficiency_unknown=efficiency.reason if isinstance(efficiency, Unknown) else "",
        expected=expected if isinstance(expected, ExpectedStep) else None,
        expected_unknown=expected.reason if isinstance(expected, Unknown) else "",
        pauses=snapshot.pauses,
        samples_source=_samples_source(snapshot),
        utilization=None if isinstance(utilization, Unknown) else utilization,
        utilization_unknown=utilization.reason if isinstance(utilization, Unknown) else "",
        gpu_activity=hub_state.activity.activity(account),
        uncompared=snapshot.uncompared,
        progress=progress(hub_state.planned_steps, step, state, hub_state.pace),
    )


def _samples_source(snapshot: Snapshot) -> str:
    """Return the least certain source of the ranks' samples; empty if the samples of a rank are unknown."""
    sources = {r.samples_source for r in snapshot.reported_ranks}
    return "" if "" in sources else in_order(sources, SAMPLES_SOURCES)[-1]


def job_state(snapshot: Snapshot, active: Sequence[Finding]) -> str:
    """Return the state of a job in one word: the activity of most ranks, unless it is stalled or has ended.

    A stall of severity info, which is a pause that is ordinary for the job, is part of its activity. A job whose ranks
    have finished is done, also while a process hangs in its exit.
    """
    if not snapshot.ranks:
        return "unknown"
    stalls = [f.cause for f in active if f.is_stall and f.severity != "info"]
    alive = [r.activity for r in snapshot.ranks if r.alive and r.activity != "done"]
    if alive and any(cause not in _RESTARTING for cause in stalls):
        return "stalled"
    have_finished = all(r.activity == "done" for r in snapshot.ranks)
    if have_finished and (not stalls or any(r.alive for r in snapshot.ranks)):
        return "done"
    if not alive:
        return EXITED
    return Counter(alive).most_common(1)[0][0]
