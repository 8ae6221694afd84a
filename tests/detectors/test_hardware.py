"""Test that a failing GPU or link is reported by NVSentinel's thresholds, and that the job's own faults are not."""

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


def counting(nic, **errors):
    """Return the same device with other counts."""
    return replace(nic, errors={**nic.errors, **errors})


def test_lost_card_is_named_with_its_host_and_what_to_do():
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
def test_failing_card_is_named_with_what_it_did(change, cause, says):
    finding = cards(replace(CARD, **change))
    assert (finding.cause, finding.hosts) == (cause, ("node-a",))
    assert says in finding.summary


@pytest.mark.parametrize("xid", [13, 31, 43, 45])
def test_error_that_a_jobs_own_mistake_raises_is_no_hardwares(xid):
    assert cards(replace(CARD, xid_errors={xid: 3})) is None


def test_cost_of_what_the_job_may_not_feel_is_not_known():
    before, now = HostSample(gpus=(CARD,)), HostSample(gpus=(GpuSample("0", "GPU-a", lost=True),))
    ranks = [rank_state(rank, device=f"GPU-{rank}") for rank in range(4)]
    (finding,) = Hardware().detect(snapshot(*ranks, hardware=[HostWindow("node-a", 60.0, before, now)]))
    assert finding.lost_gpu_hours is None


def test_any_loss_of_a_link_is_reported():
    finding = ports(counting(PORT, link_downed=3))
    assert (finding.cause, finding.hosts) == ("link_down", ("node-a",))
    assert "mlx5_0:1 on node-a: the link went down 1 ×" in finding.summary


def test_interface_that_lost_its_carrier_is_reported_and_one_without_is_not():
    assert interfaces(replace(ETH, up=False)).cause == "link_down"
    assert interfaces(counting(ETH, carrier_down_count=2)).cause == "link_down"
    assert interfaces(replace(ETH, up=False), before=replace(ETH, up=False)) is None


@pytest.mark.parametrize(
    ("counter", "quiet", "loud"),
    [("symbol_error", 600, 601), ("link_error_recovery", 5, 6), ("roce_slow_restart", 600, 601)],
)
def test_link_is_degraded_above_its_threshold_and_not_at_it(counter, quiet, loud):
    assert ports(counting(PORT, **{counter: quiet})) is None
    assert ports(counting(PORT, **{counter: loud})).cause == "link_degraded"


def test_few_errors_right_after_the_start_are_no_rate():
    assert ports(counting(PORT, link_error_recovery=2), seconds=5.0) is None


def test_healthy_host_reports_nothing():
    assert cards(CARD) is ports(PORT) is interfaces(ETH) is None


def test_host_that_shows_nothing_reports_nothing():
    assert detect(HostSample(), HostSample()) is None


def test_device_that_was_not_known_before_did_nothing_yet():
    now = HostSample(gpus=(replace(CARD, xid_errors={79: 1}),), rdma=(PORT,), nics=(ETH,))
    assert detect(HostSample(), now) is None


def test_counter_that_was_not_known_before_did_not_rise():
    assert ports(PORT, before=replace(PORT, errors={})) is None


def test_counter_that_fell_is_another_agents_and_no_rise():
    """The agent's counts only grow, so the agent or the host has restarted."""
    assert ports(counting(PORT, link_downed=1)) is None
    assert ports(counting(PORT, symbol_error=900), before=counting(PORT, symbol_error=20_000)) is None


def test_link_is_down_for_as_long_as_it_is():
    window = HostWindow("node-a", 60.0, *[HostSample(rdma=(replace(PORT, up=False),))] * 2, frozenset(["mlx5_0:1"]))
    assert all_findings(window)[0].cause == "link_down"


def test_card_that_the_driver_lists_no_more_is_lost():
    window = HostWindow("node-a", 60.0, *[HostSample(gpus=())] * 2, frozenset(["GPU-a", "MIG-7"]))
    (finding,) = all_findings(window)
    assert (finding.cause, finding.summary) == ("gpu_lost", "GPU GPU-a on node-a: the driver does not list it any more")


def test_cards_are_not_lost_while_the_source_is_down():
    assert all_findings(HostWindow("node-a", 60.0, HostSample(), HostSample(), frozenset(["GPU-a"]))) == ()


def test_ends_of_containers_come_and_go_without_a_word():
    veth = replace(ETH, device="veth1", pci=None)
    assert interfaces(replace(veth, up=False), before=veth) is None


def test_each_host_and_cause_is_a_finding_of_its_own():
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


def test_devices_of_a_host_that_fail_alike_are_one_finding():
    ports = [replace(PORT, device=f"mlx5_{n}:1") for n in range(3)]
    before, now = HostSample(rdma=tuple(ports)), HostSample(rdma=tuple(counting(p, link_downed=3) for p in ports))
    (finding,) = all_findings(HostWindow("node-a", 60.0, before, now))
    assert "2 more" in finding.summary
    assert [fault.device for fault in finding.evidence.faults] == ["mlx5_0:1", "mlx5_1:1", "mlx5_2:1"]


def test_hosts_of_another_job_are_not_this_ones():
    """The timeline of an incident leaves them out."""
    assert Hardware().detect(snapshot(rank_state(0))) == ()


def test_rank_of_the_card_is_named():
    lost = HostWindow("node-a", 60.0, HostSample(), HostSample(gpus=(GpuSample("1", "GPU-b", lost=True),)))
    ranks = [rank_state(0, device="GPU-a"), rank_state(1, device="GPU-b")]
    (finding,) = Hardware().detect(snapshot(*ranks, hardware=[lost]))
    assert "GPU 1 on node-a (rank 1)" in finding.summary


def test_fault_is_not_over_because_its_source_is_down():
    """A GPU may take the driver with it."""

    def can_resolve(finding, **now):
        window = HostWindow("node-a", 60.0, HostSample(), HostSample(**now))
        return Hardware().can_resolve(snapshot(rank_state(0), hardware=[window]), finding)

    lost, down = cards(GpuSample("0", "GPU-a", lost=True)), ports(counting(PORT, link_downed=3))
    assert can_resolve(lost, gpus=())
    assert not can_resolve(lost, nics=(ETH,))
    assert can_resolve(down, rdma=(PORT,))
    assert not can_resolve(down, gpus=(CARD,))
    assert not Hardware().can_resolve(snapshot(rank_state(0)), lost)


def test_fault_of_a_host_that_the_job_has_left_is_over():
    lost = cards(GpuSample("0", "GPU-a", lost=True))
    assert Hardware().can_resolve(snapshot(finished(0), rank_state(1, host="node-b")), lost)
