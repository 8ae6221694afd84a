"""The hardware of a host in a capsule: what its interfaces and GPUs did in the minute before. Pure.

A counter that fell has been reset, so its growth is unknown.
"""

from __future__ import annotations

from zmon.schema.host import GpuSample, HostWindow, NicSample, rise, risen
from zmon.schema.incident import GpuRow, HostRow, NicRow
from zmon.schema.row import row_of


def host_row(window: HostWindow) -> HostRow:
    """Return a host's rates and the growth of its counters over the window, and its state at the end."""
    before, now, seconds = window.before, window.now, window.seconds
    nics_before = {nic.device: nic for nic in (*(before.nics or ()), *(before.rdma or ()))}
    gpus_before = {gpu.uuid: gpu for gpu in before.gpus or ()}
    retransmitted = [sample.tcp.retransmitted_segments if sample.tcp else None for sample in (before, now)]
    load = now.load
    return HostRow(
        host=window.host,
        seconds=seconds,
        nics=tuple(_nic(nics_before.get(nic.device), nic, seconds) for nic in (*(now.nics or ()), *(now.rdma or ()))),
        gpus=tuple(_gpu(gpus_before.get(gpu.uuid), gpu) for gpu in now.gpus or ()),
        retransmitted_segments=rise(retransmitted[0], retransmitted[1]),
        memory_available_bytes=load.memory_available_bytes if load else None,
        memory_total_bytes=load.memory_total_bytes if load else None,
        runnable=load.runnable if load else None,
        blocked=load.blocked if load else None,
    )


def _nic(before: NicSample | None, now: NicSample, seconds: float) -> NicRow:
    return row_of(
        NicRow,
        now,
        received_bytes_per_second=_rate(before.received_bytes if before else None, now.received_bytes, seconds),
        transmitted_bytes_per_second=_rate(
            before.transmitted_bytes if before else None, now.transmitted_bytes, seconds
        ),
        errors=risen(before.errors if before else {}, now.errors),
    )


def _gpu(before: GpuSample | None, now: GpuSample) -> GpuRow:
    xids = risen(before.xid_errors if before else now.xid_errors, now.xid_errors, absent=0)
    ecc = risen(before.ecc_errors if before else {}, now.ecc_errors)
    return row_of(
        GpuRow,
        now,
        sm_clock_hertz=now.clocks_hertz.get("sm"),
        throttled=tuple(reason for reason, on in now.throttled.items() if on),
        errors={**ecc, **{f"xid_{xid}": count for xid, count in xids.items()}},
    )


def _rate(before: int | None, now: int | None, seconds: float) -> float | None:
    increase = rise(before, now)
    return None if increase is None or seconds <= 0 else increase / seconds
