"""Is a card or a link of this job's hosts failing, whether or not the job feels it yet?

Everything is judged by what happened in the last minute or by a state that lasts; a host of which little is known is
judged by that little. Thresholds of links: NVIDIA's NVSentinel (`link_downed`, `symbol_error`, `link_error_recovery`,
`roce_slow_restart`). XIDs that a job's own mistake raises are no hardware's (NVIDIA, "XID Errors"); those that are
come with what the finding says to do.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from zmon.detectors.parts.network import of_a_card
from zmon.detectors.parts.verdict import drain, verdict
from zmon.schema.evidence import Evidence, Fault
from zmon.schema.finding import Finding
from zmon.schema.host import GpuSample, HostWindow, NicSample, risen
from zmon.schema.snapshot import Snapshot
from zmon.schema.thresholds import Thresholds

_JOBS_OWN_XIDS = frozenset((13, 31, 43, 45, 68))  # illegal access, page fault, stopped or killed process, video
_DOWN = ("link_downed", "carrier_down_count")


@dataclass(frozen=True)
class Hardware(Thresholds):
    """Thresholds: events a second, judged over at least so many seconds."""

    symbol_errors_per_second: float = 10.0  # NVSentinel's limit
    link_recoveries_per_second: float = 5.0 / 60  # NVSentinel's limit of five a minute
    slow_restarts_per_second: float = 10.0  # NVSentinel's limit, of RoCE
    rate_seconds: float = 60.0  # one error soon after the start is no rate
    name = "hardware"
    separate = True
    causes = ("gpu_lost", "gpu_memory", "gpu_xid", "link_down", "link_degraded")

    def sees(self, snapshot: Snapshot, finding: Finding) -> bool:
        """While the source that told of it does: a card may have taken the driver with it.

        And once none of the job's ranks lives there: then it is the job's no more.
        """
        if not any(r.alive and r.host in finding.hosts for r in snapshot.reported_ranks):
            return True
        now = [window.now for window in snapshot.hardware if window.host in finding.hosts]
        if finding.cause.startswith("gpu"):
            return any(sample.gpus is not None for sample in now)
        return any(sample.nics is not None or sample.rdma is not None for sample in now)

    def inert(self, snapshot: Snapshot) -> str | None:
        """Where no agent reads a card or a link of its hosts."""
        now = [window.now for window in snapshot.hardware]
        known = any(part is not None for sample in now for part in (sample.gpus, sample.nics, sample.rdma))
        return None if known else "no agent of its hosts reads GPUs or links"

    def detect(self, snapshot: Snapshot) -> tuple[Finding, ...]:
        """A finding for each host and cause; what several devices of a host have in common is one."""
        faults: defaultdict[tuple[str, str], list[Fault]] = defaultdict(list)
        for window in snapshot.hardware:
            for fault in self._faults(window):
                faults[fault.cause, fault.host].append(fault)
        return tuple(self._finding(snapshot, alike) for alike in faults.values())

    def _finding(self, snapshot: Snapshot, faults: list[Fault]) -> Finding:
        first = faults[0]
        cards = {fault.uuid for fault in faults if fault.uuid}
        ranks = sorted(r.rank for r in snapshot.reported_ranks if r.host == first.host and r.device in cards)
        whose = f" (rank {', '.join(map(str, ranks))})" if ranks else ""
        more = f", and {len(faults) - 1} more (in the evidence)" if len(faults) > 1 else ""
        return verdict(
            snapshot,
            detector=self.name,
            cause=first.cause,
            severity="warning",  # should the job stand still for it, `stall` pages
            culprits=(),
            hosts=(first.host,),
            seconds_ago=0.0,  # it came since the hub last asked
            confidence=1.0,
            stalled=False,
            summary=f"{first.device} on {first.host}{whose}: {first.says}{more}",
            detail=_NEXT[first.cause].format(host=first.host, device=first.device, drain=drain(first.host)),
            evidence=Evidence(faults=tuple(faults)),
        )

    def _faults(self, window: HostWindow) -> Iterator[Fault]:
        before = {gpu.uuid: gpu for gpu in window.before.gpus or ()}
        if window.now.gpus is not None:
            for uuid in sorted(window.worked - {gpu.uuid for gpu in window.now.gpus}):
                if uuid.startswith("GPU-"):  # instances of a split card come and go
                    yield Fault("gpu_lost", window.host, f"GPU {uuid}", "the driver lists it no more", uuid)
        for gpu in window.now.gpus or ():
            for cause, says in self._of_card(before.get(gpu.uuid, gpu), gpu):
                yield Fault(cause, window.host, f"GPU {gpu.gpu}", says, gpu.uuid)
        for then, now in ((window.before.nics, window.now.nics), (window.before.rdma, window.now.rdma)):
            ports = {nic.device: nic for nic in then or ()}
            for nic in now or ():
                if not of_a_card(nic):
                    continue
                was_up = nic.device in window.worked
                for cause, says in self._of_link(ports.get(nic.device, nic), nic, window.seconds, was_up):
                    yield Fault(cause, window.host, nic.device, says)

    def _of_card(self, before: GpuSample, now: GpuSample) -> Iterator[tuple[str, str]]:
        if now.lost:
            yield "gpu_lost", "it fell off the bus; its rank cannot go on"
        if uncorrected := risen(before.ecc_errors, now.ecc_errors).get("volatile_uncorrected", 0):
            yield "gpu_memory", f"{uncorrected} uncorrectable memory errors"
        elif now.repair_pending:
            yield "gpu_memory", "memory waits for a reset to be repaired"
        for xid, count in risen(before.xid_errors, now.xid_errors, absent=0).items():
            if xid not in _JOBS_OWN_XIDS:
                yield "gpu_xid", f"XID {xid}, {count} ×"

    def _of_link(self, before: NicSample, now: NicSample, seconds: float, was_up: bool) -> Iterator[tuple[str, str]]:
        errors = risen(before.errors, now.errors)
        for counter in _DOWN:
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
                yield "link_degraded", f"{count} {counter} in {seconds:.0f} s (threshold {limit * 60:g} a minute)"


_DRAIN = "take the host out before the next start ({drain})."
_NEXT = {
    "gpu_lost": "On {host}: `nvidia-smi`, `dmesg | grep -i xid`. A reboot brings the card back at best: " + _DRAIN,
    "gpu_memory": "On {host}: `nvidia-smi -q -d ECC,ROW_REMAPPER`. A repair needs a reset of the card: " + _DRAIN,
    "gpu_xid": "On {host}: `dmesg | grep -i xid`, and NVIDIA's table of XIDs. If it comes again, " + _DRAIN,
    "link_down": "On {host}: `dmesg | grep -i link`, `ethtool {device}` or `ibstat`; look at cable and switch port. "
    "If it comes again, " + _DRAIN,
    "link_degraded": "On {host}: `ethtool -S {device}` or `perfquery`; clean or change cable and optics. "
    "If it goes on, " + _DRAIN,
}
