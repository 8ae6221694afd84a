"""One job as people see it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from zmon.hub.job_state import JobStates
from zmon.schema.curve import Efficiency
from zmon.schema.expected import Expected
from zmon.schema.finding import Finding
from zmon.schema.job import JobView
from zmon.schema.snapshot import Snapshot
from zmon.schema.unknown import Unknown
from zmon.stats import quantile


def view(snapshot: Snapshot, books: JobStates, active: Sequence[Finding]) -> JobView:
    """A job, given what is kept of it and what is wrong with it."""
    lead, book = snapshot.known[0], books.of(snapshot)
    account, state = book.account, job_state(snapshot, active)
    efficiency, expected = books.curves.judge(snapshot, state)
    return JobView(
        job_id=snapshot.job_id,
        attempt=snapshot.attempt,
        world_size=snapshot.world_size,
        ranks_seen=len(snapshot.ranks),
        state=state,
        step=max(r.step for r in snapshot.known),
        step_seconds=quantile(book.time.recent_seconds, 0.5),
        step_seconds_p95=quantile(book.time.recent_seconds, 0.95),
        samples_per_second=book.time.samples_per_second,
        report=lead.report,
        time=account.causes,
        gpu_seconds=account.gpu_seconds,
        goodput_ratio=account.goodput_ratio,
        goodput_unknown=account.doubt,
        hosts=tuple(sorted({r.host for r in snapshot.known})),
        labels=lead.labels,
        findings=tuple(f.id for f in active),
        efficiency=efficiency if isinstance(efficiency, Efficiency) else None,
        efficiency_unknown=efficiency.reason if isinstance(efficiency, Unknown) else "",
        expected=expected if isinstance(expected, Expected) else None,
        expected_unknown=expected.reason if isinstance(expected, Unknown) else "",
    )


def job_state(snapshot: Snapshot, active: Sequence[Finding]) -> str:
    """One word for a job: what most of its ranks do, unless it stalled or is over."""
    if not snapshot.ranks:
        return "unknown"
    stalls = [f.cause for f in active if f.is_stall]
    alive = [r.activity for r in snapshot.ranks if r.alive and r.activity != "done"]
    if alive and any(cause != "rank_exited" for cause in stalls):
        return "stalled"
    if all(r.activity == "done" for r in snapshot.ranks) and not stalls:
        return "done"
    if not alive:
        return "exited"
    return Counter(alive).most_common(1)[0][0]
