"""Test the cause of a slow rank or slow link, from hardware and connections."""

from dataclasses import replace

import pytest

from tests.detectors.slow_jobs import GOOD, HOSTS, cards, connected, detect, host, rank, slow, steps, then, well

# -- why it is slow ----------------------------------------------------------------------------------------


def test_slow_rank_whose_gpu_is_throttled_is_so_because_of_it():
    hot = cards((), (), ("hw_thermal", "sw_power_cap"), ())
    finding = detect(well(), then(20, *slow(2, own=0.100)), hardware=hot)
    assert (finding.cause, finding.ranks, finding.hosts, finding.severity) == (
        "thermal_throttle",
        (2,),
        ("node-c",),
        "warning",
    )
    assert "GPU 2 (GPU-2) on node-c lowers its clock at 91 °C: hw_thermal, sw_power_cap" in finding.summary


def test_what_all_gpus_show_explains_no_slow_rank():
    capped = cards(*[("sw_power_cap",)] * 4)
    assert detect(well(), then(20, *slow(2, own=0.100)), hardware=capped).cause == "compute_straggler"


def test_slow_rank_of_a_young_job_is_reported_if_its_gpu_is_hot():
    """Thirteen steps are too few to estimate chance, but the GPU shows the same."""
    young = then(13, *slow(2, own=0.100))
    young = [replace(step, stands_for=8) for step in young]  # as many seconds as it takes
    finding = detect(young, hardware=cards((), (), ("hw_thermal",), ()))
    assert (finding.cause, finding.ranks, finding.severity) == ("thermal_throttle", (2,), "warning")
    assert detect(young, hardware=cards((), (), (), ())) is None
    assert detect(young, hardware=cards((), ("hw_thermal",), (), ())).severity == "info"  # the GPU of another rank


def test_slow_rank_with_a_capped_gpu_is_reported_as_capped_and_not_as_hot():
    capped = cards((), (), ("sw_power_cap",), ())
    finding = detect(well(), then(20, *slow(2, own=0.100)), hardware=capped)
    assert (finding.cause, finding.ranks) == ("compute_straggler", (2,))
    assert "lowers its clock at 91 °C: sw_power_cap" in finding.summary


def test_slow_loader_on_a_capped_gpu_is_an_input_straggler_without_the_cap():
    finding = detect(well(), then(20, *slow(2, data=0.060)), hardware=cards((), (), ("sw_power_cap",), ()))
    assert finding.cause == "input_straggler"
    assert "lowers its clock" not in finding.summary


def test_gpu_that_is_too_hot_is_reported_before_it_costs_anything():
    finding = detect(well(), hardware=cards((), ("sw_thermal",), (), ()))
    assert (finding.cause, finding.ranks, finding.severity) == ("thermal_throttle", (1,), "info")
    assert "does not hold the others back" in finding.summary


def test_power_cap_of_a_rank_that_keeps_up_is_not_reported():
    assert detect(well(), hardware=cards((), ("sw_power_cap",), (), ())) is None


def test_slow_rank_on_a_host_whose_processes_wait_for_a_core_is_starved():
    hosts = [host(name, pressure={"cpu": 8.0 if name == "node-c" else 0.5}) for name in HOSTS]
    finding = detect(well(), then(20, *slow(2, own=0.100)), hardware=hosts)
    assert (finding.cause, finding.ranks, finding.hosts) == ("host_pressure", (2,), ("node-c",))
    assert "on node-c it waited 8.0 s of the last 60 s for cpu" in finding.summary


def test_slow_rank_whose_share_of_cores_is_used_up_is_starved():
    hosts = [host(name, ranks=(number,), held_back=4.0 if number == 2 else 0.0) for number, name in enumerate(HOSTS)]
    assert detect(well(), then(20, *slow(2, own=0.100)), hardware=hosts).cause == "host_pressure"


@pytest.mark.parametrize(
    "pressure",
    [
        {"cpu": {"node-a": 8.0, "node-b": 7.0, "node-c": 8.0, "node-d": 9.0}},
        {"cpu": {"node-a": 8.0}},
        {"cpu": {"node-c": 0.2}},
    ],
    ids=["everywhere", "on another host", "too little"],
)
def test_slow_rank_is_not_starved_by_pressure(pressure):
    hosts = [host(name, pressure={r: by.get(name, 0.0) for r, by in pressure.items()}) for name in HOSTS]
    assert detect(well(), then(20, *slow(2, own=0.100)), hardware=hosts).cause == "compute_straggler"


def test_single_slow_rank_of_a_host_is_not_starved_by_shared_resources():
    hosts = [host("node-a", pressure={"cpu": 30.0}, ranks=range(8), held_back=20.0)]
    finding = detect(well(size=8), then(20, *slow(2, 8, own=0.100)), size=8, hardware=hosts)
    assert finding.cause == "compute_straggler"


# -- the network -------------------------------------------------------------------------------------------


def test_host_with_slow_connections_is_named_if_no_rank_is_late():
    finding = detect(well(), then(20, *[rank(exchange=0.090)] * 4), baseline=GOOD, hardware=connected())
    assert (finding.cause, finding.ranks, finding.hosts) == ("network_slow", (), ("node-c",))
    assert finding.evidence.device == "eth1"
    assert "90.0 ms of a step of 164.2 ms are exposed time" in finding.summary
    assert "(30.0 ms in the baseline)" in finding.summary
    assert "ethtool eth1" in finding.detail


def test_network_slow_from_the_start_is_reported_if_it_dominates_the_step():
    always = steps(40, *[rank(exchange=0.090)] * 4, stands_for=2)
    assert detect(always, hardware=connected()).cause == "network_slow"


@pytest.mark.parametrize(
    "hardware", [(), connected(busy=0.15), connected()[2:]], ids=["unknown", "alike", "of two hosts"]
)
def test_slow_network_without_a_culprit_is_not_reported(hardware):
    assert detect(well(), then(20, *[rank(exchange=0.090)] * 4), baseline=GOOD, hardware=hardware) is None


def test_slow_link_of_a_young_job_is_reported_despite_long_computing():
    """There is no baseline of its exposed time yet; a third of the step is exposed time."""
    finding = detect(well(), baseline=None, hardware=connected())
    assert (finding.cause, finding.hosts) == ("network_slow", ("node-c",))
    assert detect(well(), baseline=None, hardware=connected(busy=0.1)) is None


def test_slow_link_that_costs_nothing_is_not_reported():
    assert detect(well(), baseline=GOOD, hardware=connected()) is None


def test_rank_that_is_late_is_named_although_the_others_wait_in_collectives():
    guilty = [rank(own=0.060, exchange=0.090) if number != 1 else rank(own=0.120) for number in range(4)]
    assert detect(well(), then(20, *guilty), baseline=GOOD).ranks == (1,)
