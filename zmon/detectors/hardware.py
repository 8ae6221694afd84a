"""Report a GPU or a link of the job's hosts that fails, even before it affects the job.

A fault is an event within the last minute, or a state that lasts, as far as the host reports it. The thresholds of
links are those of NVIDIA's NVSentinel (`link_downed`, `symbol_error`, `link_error_recovery`, `roce_slow_restart`). XIDs
that a mistake of the job itself raises are no hardware faults (NVIDIA, "XID Errors").
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from zmon.detectors.network import is_physical
from zmon.detectors.new_finding import drain, new_finding
from zmon.detectors.wording import ranks_text
from zmon.schema.evidence import Fault, HardwareEvidence
from zmon.schema.finding import Finding
from zmon.schema.host import GpuSample, HostWindow, NicSample, increased
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.names import DEVICE
from zmon.schema.thresholds import Thresholds

_JOB_XIDS = frozenset((13, 31, 43, 45, 68))  # illegal access, page fault, stopped or killed process, video
_DOWN_COUNTERS = ("link_downed", "carrier_down_count")
_DRAIN = "take the host out before the next start ({drain})."
_NEXT_STEPS = {
    "gpu_lost": "On {host}: `nvidia-smi`, `dmesg | grep -i xid`. Only a reboot may bring the GPU back: " + _DRAIN,
    "gpu_memory": "On {host}: `nvidia-smi -q -d ECC,ROW_REMAPPER`. A repair needs a reset of the GPU: " + _DRAIN,
    "gpu_xid": "On {host}: `dmesg | grep -i xid`, and NVIDIA's table of XIDs. If it happens again, " + _DRAIN,
    "link_down": "On {host}: `dmesg | grep -i link`, `ethtool {device}` or `ibstat`; check cable and switch port. "
    "If it happens again, " + _DRAIN,
    "link_degraded": "On {host}: `ethtool -S {device}` or `perfquery`; clean or change cable and optics. "
    "If it goes on, " + _DRAIN,
}


@dataclass(frozen=True)
class Hardware(Thresholds):
    """The detector `hardware`; rates count over at least `rate_seconds`."""

    # A link is degraded if it has more symbol errors per second. This is NVSentinel's limit.
    symbol_errors_per_second: float = 10.0
    # A link is degraded if it recovers from errors more often. This is NVSentinel's limit. A setting is per second.
    link_recoveries_per_second: float = 5.0 / 60
    # A RoCE port is degraded if it has more slow restarts per second. This is NVSentinel's limit.
    slow_restarts_per_second: float = 10.0
    # Rates are computed over at least this time. One error soon after the start is not yet a rate.
    rate_seconds: float = 60.0
    name = "hardware"
    separate = True
    causes = ("gpu_lost", "gpu_memory", "gpu_xid", "link_down", "link_degraded")

    def can_resolve(self, snapshot: Snapshot, finding: Finding) -> bool:
        """Return True while the host still reports the kind of device that failed.

        A GPU that fails may make the driver fail, and then no GPU is reported. Also True once no rank of the job is
        alive on the host, because the fault no longer concerns the job.
        """
        if not any(r.alive and r.host in finding.hosts for r in snapshot.reported_ranks):
            return True
        now = [window.now for window in snapshot.hardware if window.host in finding.hosts]
        if finding.cause.startswith("gpu"):
            return any(sample.gpus is not None for sample in now)
        return any(sample.nics is not None or sample.rdma is not None for sample in now)

    def inert_reason(self, snapshot: Snapshot) -> str | None:
        """Return a reason if no agent of its hosts reads GPUs or links."""
        now = [window.now for window in snapshot.hardware]
        known = any(part is not None for sample in now for part in (sample.gpus, sample.nics, sample.rdma))
        return None if known else "no agent of its hosts reads GPUs or links"

    def detect(self, snapshot: Snapshot) -> tuple[Finding, ...]:
        """Return one finding for each host and cause, for all affected devices of the host."""
        faults: defaultdict[tuple[str, str], list[Fault]] = defaultdict(list)
        for window in snapshot.hardware:
            for fault in self.faults(window):
                faults[fault.cause, fault.host].append(fault)
        return tuple(self._finding(snapshot, host_faults) for host_faults in faults.values())

    def _finding(self, snapshot: Snapshot, faults: list[Fault]) -> Finding:
        """Return the finding about faults of one host that have the same cause."""
        first = faults[0]
        uuids = {fault.uuid for fault in faults if fault.uuid}
        ranks = sorted(r.rank for r in snapshot.reported_ranks if r.host == first.host and r.device in uuids)
        affected = f" ({ranks_text(ranks)})" if ranks else ""
        more = f", and {len(faults) - 1} more (in the evidence)" if len(faults) > 1 else ""
        return new_finding(
            snapshot,
            detector=self.name,
            cause=first.cause,
            severity="warning",  # if the job stalls because of it, the finding of `stall` is critical
            proof=DEVICE,
            hosts=(first.host,),
            seconds_ago=0.0,  # the fault is newer than the hub's last poll
            confidence=1.0,
            summary=f"{first.device} on {first.host}{affected}: {first.says}{more}",
            detail=_NEXT_STEPS[first.cause].format(host=first.host, device=first.device, drain=drain(first.host)),
            evidence=HardwareEvidence(faults=tuple(faults)),
        )

    def faults(self, window: HostWindow) -> Iterator[Fault]:
        """Yield the faults of one host, also for whoever asks about a host and not about a job."""
        before = {gpu.uuid: gpu for gpu in window.before.gpus or ()}
        if window.now.gpus is not None:
            for uuid in sorted(window.worked - {gpu.uuid for gpu in window.now.gpus}):
                if uuid.startswith("GPU-"):  # MIG instances come and go
                    yield Fault("gpu_lost", window.host, f"GPU {uuid}", "the driver does not list it any more", uuid)
        for gpu in window.now.gpus or ():
            for cause, text in self._gpu_faults(before.get(gpu.uuid, gpu), gpu):
                yield Fault(cause, window.host, f"GPU {gpu.gpu}", text, gpu.uuid)
        for then, now in ((window.before.nics, window.now.nics), (window.before.rdma, window.now.rdma)):
            ports = {nic.device: nic for nic in then or ()}
            for nic in now or ():
                if not is_physical(nic):
                    continue
                was_up = nic.device in window.worked
                for cause, text in self._link_faults(ports.get(nic.device, nic), nic, window.seconds, was_up):
                    yield Fault(cause, window.host, nic.device, text)

    def _gpu_faults(self, before: GpuSample, now: GpuSample) -> Iterator[tuple[str, str]]:
        """Yield the cause and the text of each fault of a GPU, given two samples of it."""
        if now.lost:
            yield "gpu_lost", "it fell off the bus; its rank cannot go on"
        if uncorrected := increased(before.ecc_errors, now.ecc_errors).get("volatile_uncorrected", 0):
            yield "gpu_memory", f"{uncorrected} uncorrectable memory errors"
        elif now.repair_pending:
            yield "gpu_memory", "its memory needs a reset to be repaired"
        for xid, count in increased(before.xid_errors, now.xid_errors, absent=0).items():
            if xid not in _JOB_XIDS:
                yield "gpu_xid", f"XID {xid}, {count} ×"

    def _link_faults(
        self, before: NicSample, now: NicSample, seconds: float, was_up: bool
    ) -> Iterator[tuple[str, str]]:
        """Yield the cause and the text of each fault of a port, given two samples that are these seconds apart."""
        errors = increased(before.errors, now.errors)
        for counter in _DOWN_COUNTERS:
            if count := errors.get(counter, 0):
                yield "link_down", f"the link went down {count} × in {seconds:.0f} s"
        if was_up and now.up is False:
            yield "link_down", "the link is down"
        for counter, limit in (
            ("symbol_error", self.symbol_errors_per_second),
            ("link_error_recovery", self.link_recoveries_per_second),
            ("roce_slow_restart", self.slow_restarts_per_second),
        ):
            count = errors.get(counter, 0)
            if count > limit * max(seconds, self.rate_seconds):
                yield "link_degraded", f"{count} {counter} in {seconds:.0f} s (threshold {limit * 60:g} per minute)"
