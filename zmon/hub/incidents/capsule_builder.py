"""The builder of capsules: it combines a finding, the job's snapshot, and the last steps of its ranks. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from zmon.format import listed
from zmon.hub.incidents.hardware import host_row
from zmon.hub.incidents.steps import LastSteps
from zmon.schema.finding import Finding
from zmon.schema.incident import Capsule, HostRow, IncidentRank
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.measures import NS
from zmon.schema.names import run_page
from zmon.schema.rank import RankState
from zmon.schema.row import row_of
from zmon.schema.steps import DURATION, Steps
from zmon.stats import quantile

MAX_HOSTS = 64  # hosts whose hardware is in the capsule


def capsule(
    finding: Finding,
    snapshot: Snapshot,
    runs: Sequence[LastSteps],
    left_out: Sequence[str],
    versions: dict[str, str],
    collected: float,
    seconds: float,
) -> Capsule:
    """Build a capsule without its timeline.

    `runs`: the ranks whose steps are stored; `left_out`: a line for each part that is missing; `seconds`: the duration
    of the collection.
    """
    by_rank = {run.state.rank: run for run in runs}
    watched = {r.rank for r in snapshot.ranks}
    rows = [_rank_row(r, finding, r.rank in watched, by_rank.get(r.rank)) for r in snapshot.reported_ranks]
    hosts, missing_hosts = _hosts(snapshot, finding)
    return Capsule(
        finding=finding,
        collected=collected,
        attempt=snapshot.attempt,
        world_size=snapshot.world_size,
        ranks=tuple(rows),
        missing=snapshot.missing,
        num_missing=snapshot.num_missing,
        hosts=hosts,
        stepped=tuple(sorted(by_rank)),
        left_out=(*left_out, *missing_hosts),
        versions=versions,
        seconds_to_collect=round(seconds, 3),
        run_page=run_page(snapshot.reported_ranks[0].labels),
    )


def _hosts(snapshot: Snapshot, finding: Finding) -> tuple[tuple[HostRow, ...], tuple[str, ...]]:
    """Return the hardware of the hosts, those of the culprits first, and a line for each part that is missing."""
    windows = sorted(snapshot.hardware, key=lambda window: (window.host not in finding.hosts, window.host))
    rows = tuple(host_row(window) for window in windows[:MAX_HOSTS])
    unknown = sorted({r.host for r in snapshot.reported_ranks} - {window.host for window in windows})
    lines = [f"the hardware of {len(windows) - MAX_HOSTS} more hosts"] if len(windows) > MAX_HOSTS else []
    if unknown:
        lines.append(f"the hardware of {listed(unknown, 4)}: no agent answered for it at that time")
    return rows, tuple(lines)


def _rank_row(state: RankState, finding: Finding, watched: bool, run: LastSteps | None) -> IncidentRank:
    steps = run.steps if run else Steps()
    words, in_flight = state.last_words, state.in_flight
    return row_of(
        IncidentRank,
        state,
        culprit=state.rank in finding.ranks,
        watched=watched,
        op=in_flight.op if in_flight else None,
        group=in_flight.group if in_flight else None,
        sequence=in_flight.sequence if in_flight else None,
        wait_seconds=in_flight.seconds if in_flight else None,
        last_words=f"{words.type}: {words.message[:400]}" if words else None,
        num_steps=steps.num_rows,
        step_seconds=_median_seconds(steps.column(DURATION)),
        self_seconds=_median_seconds(steps.sums("phase")),
        exposed_seconds=_median_seconds(steps.sums("exposed")),
    )


def _median_seconds(nanoseconds: Sequence[int]) -> float | None:
    return quantile([number * NS for number in nanoseconds], 0.5)
