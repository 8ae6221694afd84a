"""The builder of capsules: it combines a finding, the job's snapshot, and the last steps of its ranks. Pure.

The row of a host shows what its interfaces and GPUs did in the last minute. A counter that fell has been reset, and its
growth is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence

from zmon.format import listed
from zmon.hub.incidents.steps import LastSteps
from zmon.schema.finding import Finding
from zmon.schema.host import GpuSample, HostWindow, NicSample, increase, increased
from zmon.schema.incident import Capsule, GpuRow, HostRow, IncidentRank, NicRow
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
    runs_by_rank = {run.state.rank: run for run in runs}
    watched = {r.rank for r in snapshot.ranks}
    rows = [_rank_row(r, finding, r.rank in watched, runs_by_rank.get(r.rank)) for r in snapshot.reported_ranks]
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
        stepped=tuple(sorted(runs_by_rank)),
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
    return quantile([value * NS for value in nanoseconds], 0.5)


def host_row(window: HostWindow) -> HostRow:
    """Return a host's rates and the growth of its counters over the window, and its state at the end."""
    before, now, seconds = window.before, window.now, window.seconds
    nics_before = {nic.device: nic for nic in (*(before.nics or ()), *(before.rdma or ()))}
    gpus_before = {gpu.uuid: gpu for gpu in before.gpus or ()}
    segments_before, segments_now = (s.tcp.retransmitted_segments if s.tcp else None for s in (before, now))
    load = now.load
    return HostRow(
        host=window.host,
        seconds=seconds,
        nics=tuple(_nic(nics_before.get(nic.device), nic, seconds) for nic in (*(now.nics or ()), *(now.rdma or ()))),
        gpus=tuple(_gpu(gpus_before.get(gpu.uuid), gpu) for gpu in now.gpus or ()),
        retransmitted_segments=increase(segments_before, segments_now),
        memory_available_bytes=load.memory_available_bytes if load else None,
        memory_total_bytes=load.memory_total_bytes if load else None,
        runnable=load.runnable if load else None,
        blocked=load.blocked if load else None,
    )


def _nic(before: NicSample | None, now: NicSample, seconds: float) -> NicRow:
    received, sent = (before.received_bytes, before.transmitted_bytes) if before else (None, None)
    return row_of(
        NicRow,
        now,
        received_bytes_per_second=_rate(received, now.received_bytes, seconds),
        transmitted_bytes_per_second=_rate(sent, now.transmitted_bytes, seconds),
        errors=increased(before.errors if before else {}, now.errors),
    )


def _gpu(before: GpuSample | None, now: GpuSample) -> GpuRow:
    xids = increased(before.xid_errors if before else now.xid_errors, now.xid_errors, absent=0)
    ecc = increased(before.ecc_errors if before else {}, now.ecc_errors)
    return row_of(
        GpuRow,
        now,
        sm_clock_hertz=now.clocks_hertz.get("sm"),
        throttled=tuple(reason for reason, on in now.throttled.items() if on),
        errors={**ecc, **{f"xid_{xid}": count for xid, count in xids.items()}},
    )


def _rate(before: int | None, now: int | None, seconds: float) -> float | None:
    num_bytes = increase(before, now)
    return None if num_bytes is None or seconds <= 0 else num_bytes / seconds
