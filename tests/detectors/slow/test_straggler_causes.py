"""Tests of the causes of a straggler, from its phases, the hardware of its host and its connections."""

from dataclasses import replace

import pytest

from tests.detectors.slow.slow_jobs import (
    GOOD,
    HOSTS,
    cards,
    connected,
    detect,
    healthy_steps,
    host,
    job,
    later_steps,
    rank,
    steps,
    with_slow_rank,
)
from zmon.detectors.slow.straggler import Straggler

# -- a slow rank ------------------------------------------------------------------------------------------


def test_slow_rank_with_a_throttled_gpu_has_the_cause_thermal_throttle():
    hot = cards((), (), ("hw_thermal", "sw_power_cap"), ())
    finding = detect(healthy_steps(), later_steps(20, *with_slow_rank(2, own=0.100)), hardware=hot)
    assert (finding.cause, finding.ranks, finding.hosts, finding.severity) == (
        "thermal_throttle",
        (2,),
        ("node-c",),
        "warning",
    )
    assert "GPU 2 (GPU-2) on node-c lowers its clock at 91 °C: hw_thermal, sw_power_cap" in finding.summary


def test_throttling_of_all_gpus_does_not_explain_a_slow_rank():
    capped = cards(*[("sw_power_cap",)] * 4)
    assert (
        detect(healthy_steps(), later_steps(20, *with_slow_rank(2, own=0.100)), hardware=capped).cause
        == "compute_straggler"
    )


def test_slow_rank_of_a_young_job_is_reported_if_its_gpu_is_hot():
    """Thirteen steps are too few to exclude chance, but the GPU of the slow rank is hot."""
    young = later_steps(13, *with_slow_rank(2, own=0.100))
    young = [replace(step, stands_for=8) for step in young]  # long enough in seconds
    finding = detect(young, hardware=cards((), (), ("hw_thermal",), ()))
    assert (finding.cause, finding.ranks, finding.severity) == ("thermal_throttle", (2,), "warning")
    assert detect(young, hardware=cards((), (), (), ())) is None
    assert detect(young, hardware=cards((), ("hw_thermal",), (), ())).severity == "info"  # the GPU of another rank


def test_slow_rank_with_a_power_cap_is_not_a_thermal_throttle():
    capped = cards((), (), ("sw_power_cap",), ())
    finding = detect(healthy_steps(), later_steps(20, *with_slow_rank(2, own=0.100)), hardware=capped)
    assert (finding.cause, finding.ranks) == ("compute_straggler", (2,))
    assert "lowers its clock at 91 °C: sw_power_cap" in finding.summary


def test_power_cap_is_not_mentioned_for_a_slow_loader():
    finding = detect(
        healthy_steps(), later_steps(20, *with_slow_rank(2, data=0.060)), hardware=cards((), (), ("sw_power_cap",), ())
    )
    assert finding.cause == "input_straggler"
    assert "lowers its clock" not in finding.summary


def test_hot_gpu_is_reported_as_info_before_its_rank_is_slow():
    finding = detect(healthy_steps(), hardware=cards((), ("sw_thermal",), (), ()))
    assert (finding.cause, finding.ranks, finding.severity) == ("thermal_throttle", (1,), "info")
    assert "does not hold the others back" in finding.summary


def test_power_cap_of_a_rank_that_keeps_up_is_not_reported():
    assert detect(healthy_steps(), hardware=cards((), ("sw_power_cap",), (), ())) is None


def test_cause_is_host_pressure_if_processes_wait_for_a_core():
    hosts = [host(name, pressure={"cpu": 8.0 if name == "node-c" else 0.5}) for name in HOSTS]
    finding = detect(healthy_steps(), later_steps(20, *with_slow_rank(2, own=0.100)), hardware=hosts)
    assert (finding.cause, finding.ranks, finding.hosts) == ("host_pressure", (2,), ("node-c",))
    assert "on node-c it waited 8.0 s of the last 60 s for cpu" in finding.summary


def test_cause_is_host_pressure_if_the_cpu_quota_is_used_up():
    hosts = [host(name, ranks=(number,), held_back=4.0 if number == 2 else 0.0) for number, name in enumerate(HOSTS)]
    assert (
        detect(healthy_steps(), later_steps(20, *with_slow_rank(2, own=0.100)), hardware=hosts).cause == "host_pressure"
    )


@pytest.mark.parametrize(
    "pressure",
    [
        {"cpu": {"node-a": 8.0, "node-b": 7.0, "node-c": 8.0, "node-d": 9.0}},
        {"cpu": {"node-a": 8.0}},
        {"cpu": {"node-c": 0.2}},
    ],
    ids=["everywhere", "on another host", "too little"],
)
def test_cause_is_not_host_pressure_if_pressure_is_low_or_elsewhere(pressure):
    hosts = [host(name, pressure={r: by.get(name, 0.0) for r, by in pressure.items()}) for name in HOSTS]
    assert (
        detect(healthy_steps(), later_steps(20, *with_slow_rank(2, own=0.100)), hardware=hosts).cause
        == "compute_straggler"
    )


def test_pressure_of_a_shared_host_does_not_explain_a_single_slow_rank():
    hosts = [host("node-a", pressure={"cpu": 30.0}, ranks=range(8), held_back=20.0)]
    finding = detect(healthy_steps(size=8), later_steps(20, *with_slow_rank(2, 8, own=0.100)), size=8, hardware=hosts)
    assert finding.cause == "compute_straggler"


# -- the network -------------------------------------------------------------------------------------------


def test_host_with_slow_connections_is_named_if_no_rank_is_late():
    finding = detect(healthy_steps(), later_steps(20, *[rank(exchange=0.090)] * 4), baseline=GOOD, hardware=connected())
    assert (finding.cause, finding.ranks, finding.hosts) == ("network_slow", (), ("node-c",))
    assert finding.evidence.device == "eth1"
    assert "90.0 ms of a step of 164.2 ms are exposed time" in finding.summary
    assert "(30.0 ms in the baseline)" in finding.summary
    assert "ethtool eth1" in finding.detail


def test_network_that_was_always_slow_is_reported_if_most_time_is_exposed():
    always = steps(40, *[rank(exchange=0.090)] * 4, stands_for=2)
    assert detect(always, hardware=connected()).cause == "network_slow"


@pytest.mark.parametrize(
    "hardware", [(), connected(busy=0.15), connected()[2:]], ids=["unknown", "alike", "of two hosts"]
)
def test_slow_network_without_a_culprit_is_not_reported(hardware):
    assert (
        detect(healthy_steps(), later_steps(20, *[rank(exchange=0.090)] * 4), baseline=GOOD, hardware=hardware) is None
    )


def test_slow_link_is_reported_without_a_baseline():
    """A third of the step is exposed time."""
    finding = detect(healthy_steps(), baseline=None, hardware=connected())
    assert (finding.cause, finding.hosts) == ("network_slow", ("node-c",))
    assert detect(healthy_steps(), baseline=None, hardware=connected(busy=0.1)) is None


@pytest.mark.parametrize("seconds", [0.1, 1.0])
def test_slow_link_is_reported_only_while_steps_still_end(seconds):
    """The connections of a host that is cut off look slow as well, because its data is under way and nothing comes."""
    slow = [*healthy_steps(), *later_steps(20, *[rank(exchange=0.090)] * 4)]  # 164 ms each
    finding = detect(slow, baseline=GOOD, hardware=connected(), step_seconds=seconds)
    assert (finding is not None) is (seconds < 0.164)


def test_slow_link_is_reported_if_any_rank_has_just_finished_a_step():
    """The agents look at different moments."""
    slow = job(healthy_steps(), later_steps(20, *[rank(exchange=0.090)] * 4), baseline=GOOD, hardware=connected())
    first, *others = slow.ranks
    assert Straggler().detect(replace(slow, ranks=(first, *(replace(r, step_seconds=1.0) for r in others))))


def test_slow_link_that_costs_nothing_is_not_reported():
    assert detect(healthy_steps(), baseline=GOOD, hardware=connected()) is None


def test_slow_rank_is_named_although_the_others_wait_in_collectives():
    guilty = [rank(own=0.060, exchange=0.090) if number != 1 else rank(own=0.120) for number in range(4)]
    assert detect(healthy_steps(), later_steps(20, *guilty), baseline=GOOD).ranks == (1,)
