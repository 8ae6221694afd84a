"""Tests of the detector `hardware`.

Faults of GPUs and links are reported by the limits of NVSentinel. XID errors that a program can cause are not.
"""

from dataclasses import replace

import pytest

from tests.build import finished, rank_state, snapshot
from zmon.detectors.hardware import Hardware
from zmon.hub.agent_link import working
from zmon.schema.host import GpuSample, HostSample, HostWindow, NicSample

CARD = GpuSample("0", "GPU-a", ecc_errors={"volatile_uncorrected": 0}, repair_pending=False)
PORT = NicSample("mlx5_0:1", "roce", True, 5e10, 0, 0, {
    "link_downed": 2, "symbol_error": 0, "link_error_recovery": 0, "roce_slow_restart": 0,
})  # fmt: skip
ETH = NicSample("eth0", "tcp", True, 1e9, 0, 0, {"carrier_down_count": 1, "rx_errors": 0}, pci="0000:04:00.0")


def all_findings(*windows):
    """Return all findings about the hosts of a job of four ranks."""
    return Hardware().detect(snapshot(*map(rank_state, range(4)), hardware=windows))


def detect(before, now, seconds=60.0):
    """Return the one finding about one host whose devices the hub also saw a minute ago."""
    finding = all_findings(HostWindow("node-a", seconds, before, now, working(before)))
    assert len(finding) < 2
    return finding[0] if finding else None


def cards(now, before=CARD, **times):
    return detect(HostSample(gpus=(before,)), HostSample(gpus=(now,)), **times)


def ports(now, before=PORT, **times):
    return detect(HostSample(rdma=(before,)), HostSample(rdma=(now,)), **times)


def interfaces(now, before=ETH, **times):
    return detect(HostSample(nics=(before,)), HostSample(nics=(now,)), **times)


def with_errors(nic, **errors):
    """Return the same device with other counts."""
    return replace(nic, errors={**nic.errors, **errors})


def test_lost_gpu_is_named_with_its_host_and_the_next_step():
    finding = cards(GpuSample("0", "GPU-a", lost=True))
    assert (finding.detector, finding.cause, finding.severity) == ("hardware", "gpu_lost", "warning")
    assert (finding.ranks, finding.hosts) == ((), ("node-a",))
    assert "GPU 0 on node-a" in finding.summary
    assert "kubectl cordon node-a" in finding.detail


@pytest.mark.parametrize(
    ("change", "cause", "says"),
    [
        ({"ecc_errors": {"volatile_uncorrected": 2}}, "gpu_memory", "2 uncorrectable"),
        ({"repair_pending": True}, "gpu_memory", "reset"),
        ({"xid_errors": {79: 1}}, "gpu_xid", "XID 79"),
    ],
)
def test_failing_gpu_is_named_with_its_fault(change, cause, says):
    finding = cards(replace(CARD, **change))
    assert (finding.cause, finding.hosts) == (cause, ("node-a",))
    assert says in finding.summary


@pytest.mark.parametrize("xid", [13, 31, 43, 45])
def test_xid_that_a_program_can_cause_is_not_a_hardware_fault(xid):
    assert cards(replace(CARD, xid_errors={xid: 3})) is None


def test_lost_gpu_hours_of_a_hardware_fault_are_unknown():
    before, now = HostSample(gpus=(CARD,)), HostSample(gpus=(GpuSample("0", "GPU-a", lost=True),))
    ranks = [rank_state(rank, device=f"GPU-{rank}") for rank in range(4)]
    (finding,) = Hardware().detect(snapshot(*ranks, hardware=[HostWindow("node-a", 60.0, before, now)]))
    assert finding.lost_gpu_hours is None


def test_link_that_went_down_once_is_reported():
    finding = ports(with_errors(PORT, link_downed=3))
    assert (finding.cause, finding.hosts) == ("link_down", ("node-a",))
    assert "mlx5_0:1 on node-a: the link went down 1 ×" in finding.summary


def test_lost_carrier_is_reported_but_an_absent_carrier_is_not():
    assert interfaces(replace(ETH, up=False)).cause == "link_down"
    assert interfaces(with_errors(ETH, carrier_down_count=2)).cause == "link_down"
    assert interfaces(replace(ETH, up=False), before=replace(ETH, up=False)) is None


@pytest.mark.parametrize(
    ("counter", "quiet", "loud"),
    [("symbol_error", 600, 601), ("link_error_recovery", 5, 6), ("roce_slow_restart", 600, 601)],
)
def test_link_is_degraded_only_above_its_threshold(counter, quiet, loud):
    assert ports(with_errors(PORT, **{counter: quiet})) is None
    assert ports(with_errors(PORT, **{counter: loud})).cause == "link_degraded"


def test_two_errors_within_five_seconds_are_not_reported():
    assert ports(with_errors(PORT, link_error_recovery=2), seconds=5.0) is None


def test_healthy_devices_are_not_reported():
    assert cards(CARD) is ports(PORT) is interfaces(ETH) is None


def test_host_without_samples_is_not_reported():
    assert detect(HostSample(), HostSample()) is None


def test_counters_of_a_new_device_are_not_reported():
    now = HostSample(gpus=(replace(CARD, xid_errors={79: 1}),), rdma=(PORT,), nics=(ETH,))
    assert detect(HostSample(), now) is None


def test_first_value_of_a_counter_is_not_an_increase():
    assert ports(PORT, before=replace(PORT, errors={})) is None


def test_counter_that_fell_is_not_an_increase():
    """The counts of an agent only grow. If one fell, the agent or the host has restarted."""
    assert ports(with_errors(PORT, link_downed=1)) is None
    assert ports(with_errors(PORT, symbol_error=900), before=with_errors(PORT, symbol_error=20_000)) is None


def test_link_that_stays_down_stays_reported():
    window = HostWindow("node-a", 60.0, *[HostSample(rdma=(replace(PORT, up=False),))] * 2, frozenset(["mlx5_0:1"]))
    assert all_findings(window)[0].cause == "link_down"


def test_gpu_that_the_driver_no_longer_lists_is_lost():
    window = HostWindow("node-a", 60.0, *[HostSample(gpus=())] * 2, frozenset(["GPU-a", "MIG-7"]))
    (finding,) = all_findings(window)
    assert (finding.cause, finding.summary) == ("gpu_lost", "GPU GPU-a on node-a: the driver does not list it any more")


def test_gpus_are_not_lost_while_their_source_is_down():
    assert all_findings(HostWindow("node-a", 60.0, HostSample(), HostSample(), frozenset(["GPU-a"]))) == ()


def test_virtual_interface_that_goes_down_is_not_reported():
    veth = replace(ETH, device="veth1", pci=None)
    assert interfaces(replace(veth, up=False), before=veth) is None


def test_each_host_and_cause_has_a_separate_finding():
    """A repair that is pending for days must not hide later faults."""
    pending = HostSample(gpus=(replace(CARD, repair_pending=True),))
    windows = [
        HostWindow("node-a", 60.0, pending, pending),
        HostWindow("node-b", 60.0, HostSample(gpus=(CARD,)), HostSample(gpus=(replace(CARD, lost=True),))),
    ]
    finding = all_findings(*windows)
    assert [(f.cause, f.hosts) for f in finding] == [("gpu_memory", ("node-a",)), ("gpu_lost", ("node-b",))]
    assert len({f.id for f in finding}) == 2
    assert [f.id for f in all_findings(*windows)] == [f.id for f in finding]


def test_devices_of_a_host_with_the_same_fault_share_a_finding():
    ports = [replace(PORT, device=f"mlx5_{n}:1") for n in range(3)]
    before, now = HostSample(rdma=tuple(ports)), HostSample(rdma=tuple(with_errors(p, link_downed=3) for p in ports))
    (finding,) = all_findings(HostWindow("node-a", 60.0, before, now))
    assert "2 more" in finding.summary
    assert [fault.device for fault in finding.evidence.faults] == ["mlx5_0:1", "mlx5_1:1", "mlx5_2:1"]


def test_job_without_hardware_samples_has_no_finding():
    assert Hardware().detect(snapshot(rank_state(0))) == ()


def test_rank_of_the_failing_gpu_is_named():
    lost = HostWindow("node-a", 60.0, HostSample(), HostSample(gpus=(GpuSample("1", "GPU-b", lost=True),)))
    ranks = [rank_state(0, device="GPU-a"), rank_state(1, device="GPU-b")]
    (finding,) = Hardware().detect(snapshot(*ranks, hardware=[lost]))
    assert "GPU 1 on node-a (rank 1)" in finding.summary


def test_finding_stays_open_while_its_source_is_down():
    """A faulty GPU may make the whole driver fail."""

    def can_resolve(finding, **now):
        window = HostWindow("node-a", 60.0, HostSample(), HostSample(**now))
        return Hardware().can_resolve(snapshot(rank_state(0), hardware=[window]), finding)

    lost, down = cards(GpuSample("0", "GPU-a", lost=True)), ports(with_errors(PORT, link_downed=3))
    assert can_resolve(lost, gpus=())
    assert not can_resolve(lost, nics=(ETH,))
    assert can_resolve(down, rdma=(PORT,))
    assert not can_resolve(down, gpus=(CARD,))
    assert not Hardware().can_resolve(snapshot(rank_state(0)), lost)


def test_finding_resolves_when_the_job_has_left_the_host():
    lost = cards(GpuSample("0", "GPU-a", lost=True))
    assert Hardware().can_resolve(snapshot(finished(0), rank_state(1, host="node-b")), lost)
