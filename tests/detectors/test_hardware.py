"""Tests of the detector `hardware`.

Faults of GPUs and links are reported by the limits of NVSentinel. XID errors that a program can cause are not.
"""

from dataclasses import replace

import pytest

from tests.build import finished, rank_state, snapshot
from zmon.detectors.hardware import Hardware
from zmon.hub.agent_link import working_devices
from zmon.schema.host import GpuSample, HostSample, HostWindow, NicSample

CARD = GpuSample("0", "GPU-a", ecc_errors={"volatile_uncorrected": 0}, repair_pending=False)
LOST = HostSample(gpus=(GpuSample("0", "GPU-a", lost=True),))
UP = {"up": True, "speed_bytes_per_second": 1e9, "received_bytes": 0, "transmitted_bytes": 0}
PORT = NicSample("mlx5_0:1", "roce", **UP, errors={
    "link_downed": 2, "symbol_error": 0, "link_error_recovery": 0, "roce_slow_restart": 0,
})  # fmt: skip
ETH = NicSample("eth0", "tcp", **UP, errors={"carrier_down_count": 1, "rx_errors": 0}, pci="0000:04:00.0")
VETH = replace(ETH, device="veth1", pci=None)
EMPTY = HostSample()


def gpu(**changes):
    """Return what an agent read of a GPU a minute ago and now."""
    return HostSample(gpus=(CARD,)), HostSample(gpus=(replace(CARD, **changes),))


def port(before=PORT, **counts):
    """Return what an agent read of an RDMA port a minute ago and now, with other counts of errors now."""
    return HostSample(rdma=(before,)), HostSample(rdma=(replace(PORT, errors={**PORT.errors, **counts}),))


def interface(before=ETH, up=True, **counts):
    """Return what an agent read of an interface a minute ago and now."""
    now = replace(before, up=up, errors={**before.errors, **counts})
    return HostSample(nics=(before,)), HostSample(nics=(now,))


def window(before, now, host="node-a", seconds=60.0, devices=None):
    """Return a host with these samples; `devices` have worked before, by default those of the first sample."""
    return HostWindow(host, seconds, before, now, working_devices(before) if devices is None else frozenset(devices))


RANKS = tuple(map(rank_state, range(4)))


def detect(*windows, ranks=RANKS):
    """Return all findings about the hosts of a job."""
    return Hardware().detect(snapshot(*ranks, hardware=windows))


LOST_GPU = window(HostSample(gpus=(CARD,)), LOST)
LOUD = {  # the samples of a host, the cause, and a part of the summary
    "a GPU is lost": (LOST_GPU, "gpu_lost", "GPU 0 on node-a"),
    "the driver does not list a GPU any more": (
        window(*[HostSample(gpus=())] * 2, devices=["GPU-a", "MIG-7"]), "gpu_lost",
        "GPU GPU-a on node-a: the driver does not list it any more"),
    "uncorrectable errors": (window(*gpu(ecc_errors={"volatile_uncorrected": 2})), "gpu_memory", "2 uncorrectable"),
    "a repair is pending": (window(*gpu(repair_pending=True)), "gpu_memory", "reset"),
    "XID 79": (window(*gpu(xid_errors={79: 1})), "gpu_xid", "XID 79"),
    "a link went down once": (window(*port(link_downed=3)), "link_down", "mlx5_0:1 on node-a: the link went down 1 ×"),
    "a link stays down": (
        window(*[HostSample(rdma=(replace(PORT, up=False),))] * 2, devices=["mlx5_0:1"]), "link_down", "mlx5_0:1"),
    "an interface lost its carrier": (window(*interface(up=False)), "link_down", "eth0"),
    "an interface lost its carrier for a moment": (window(*interface(carrier_down_count=2)), "link_down", "eth0"),
    "601 symbol errors": (
        window(*port(symbol_error=601)), "link_degraded", "601 symbol_error in 60 s (threshold 600 per minute)"),
    "six recoveries of a link": (
        window(*port(link_error_recovery=6)), "link_degraded", "6 link_error_recovery in 60 s (threshold 5 per"),
    "601 slow restarts": (
        window(*port(roce_slow_restart=601)), "link_degraded", "601 roce_slow_restart in 60 s (threshold 600 per"),
}  # fmt: skip
QUIET = {
    **{f"XID {xid}, which a program can cause": window(*gpu(xid_errors={xid: 3})) for xid in (13, 31, 43, 45)},
    "an interface has never had a carrier": window(*interface(replace(ETH, up=False), up=False)),
    "a virtual interface goes down": window(*interface(VETH, up=False)),
    "600 symbol errors": window(*port(symbol_error=600)),
    "five recoveries of a link": window(*port(link_error_recovery=5)),
    "600 slow restarts": window(*port(roce_slow_restart=600)),
    "two errors within five seconds": window(*port(link_error_recovery=2), seconds=5.0),
    "a healthy GPU": window(*gpu()),
    "a healthy port": window(*port()),
    "a healthy interface": window(*interface()),
    "a host without samples": window(EMPTY, EMPTY),
    "new devices": window(EMPTY, HostSample(gpus=(replace(CARD, xid_errors={79: 1}),), rdma=(PORT,), nics=(ETH,))),
    "the first value of a counter": window(*port(replace(PORT, errors={}))),
    "a counter that fell, as the agent or the host restarted": window(*port(link_downed=1)),
    "a counter that fell to 900": window(*port(replace(PORT, errors={"symbol_error": 20_000}), symbol_error=900)),
    "the source of the GPUs is down": window(EMPTY, EMPTY, devices=["GPU-a"]),
}


@pytest.mark.parametrize(("broken", "cause", "reason"), LOUD.values(), ids=LOUD)
def test_faulty_device_is_named_with_its_host(broken, cause, reason):
    (finding,) = detect(broken)
    assert (finding.detector, finding.cause, finding.severity) == ("hardware", cause, "warning")
    assert (finding.ranks, finding.hosts) == ((), ("node-a",))
    assert reason in finding.summary
    assert "more (in the evidence)" not in finding.summary
    assert (finding.confidence, finding.onset) == (1.0, finding.detected)


@pytest.mark.parametrize("healthy", QUIET.values(), ids=QUIET)
def test_hardware_is_quiet_without_a_fault_of_a_device(healthy):
    assert detect(healthy) == ()


def test_detector_is_inert_unless_an_agent_reads_gpus_or_links():
    def reason(sample):
        return Hardware().inert_reason(snapshot(*RANKS, hardware=[window(EMPTY, EMPTY), window(EMPTY, sample)]))

    assert reason(EMPTY) == "no agent of its hosts reads GPUs or links"
    assert [reason(HostSample(**{part: ()})) for part in ("gpus", "nics", "rdma")] == [None] * 3


def test_rank_of_a_lost_gpu_is_named_with_the_next_step():
    lost = window(EMPTY, HostSample(gpus=(GpuSample("1", "GPU-b", lost=True),)))
    (finding,) = detect(lost, ranks=[rank_state(0, device="GPU-a"), rank_state(1, device="GPU-b")])
    assert "GPU 1 on node-a (rank 1)" in finding.summary
    assert "kubectl cordon node-a" in finding.detail
    assert finding.lost_gpu_hours is None


def test_each_host_and_cause_has_a_separate_finding():
    """A repair that is pending for days must not hide later faults."""
    pending = HostSample(gpus=(replace(CARD, repair_pending=True),))
    windows = [window(pending, pending), window(HostSample(gpus=(CARD,)), LOST, "node-b")]
    findings = detect(*windows)
    assert [(f.cause, f.hosts) for f in findings] == [("gpu_memory", ("node-a",)), ("gpu_lost", ("node-b",))]
    assert len({f.id for f in findings}) == 2
    assert [f.id for f in detect(*windows)] == [f.id for f in findings]


def test_devices_of_a_host_with_the_same_fault_share_a_finding():
    ports = [(replace(PORT, device=f"mlx5_{n}:1"), replace(port(link_downed=3)[1].rdma[0], device=f"mlx5_{n}:1"))
             for n in range(3)]  # fmt: skip
    before, now = (HostSample(rdma=each) for each in zip(*ports, strict=True))
    (finding,) = detect(window(before, now))
    assert "2 more" in finding.summary
    assert [fault.device for fault in finding.evidence.faults] == ["mlx5_0:1", "mlx5_1:1", "mlx5_2:1"]


@pytest.mark.parametrize(
    ("broken", "now", "resolves"),
    [
        pytest.param(LOST_GPU, HostSample(gpus=()), True, id="GPUs are read"),
        pytest.param(LOST_GPU, HostSample(nics=(ETH,)), False, id="GPUs are not read"),
        pytest.param(LOST_GPU, None, False, id="nothing is known of the host"),
        pytest.param(window(*port(link_downed=3)), HostSample(rdma=(PORT,)), True, id="ports are read"),
        pytest.param(window(*port(link_downed=3)), HostSample(gpus=(CARD,)), False, id="ports are not read"),
    ],
)
def test_finding_stays_open_while_its_source_is_down(broken, now, resolves):
    """A faulty GPU may make the whole driver fail."""
    (finding,) = detect(broken)
    hardware = [HostWindow("node-a", 60.0, EMPTY, now)] if now else []
    assert Hardware().can_resolve(snapshot(rank_state(0), hardware=hardware), finding) is resolves


def test_finding_resolves_when_the_job_has_left_the_host():
    (lost,) = detect(LOST_GPU)
    assert Hardware().can_resolve(snapshot(finished(0), rank_state(1, host="node-b")), lost)
