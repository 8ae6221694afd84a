"""Why is the rank slow, or is it a host's link? What hardware and connections say, and what explains nothing."""

from dataclasses import replace

import pytest

from tests.detectors.slow_jobs import GOOD, HOSTS, cards, connected, detect, host, rank, slow, steps, then, well

# -- why it is slow ----------------------------------------------------------------------------------------


def test_slow_rank_whose_gpu_is_throttled_is_so_because_of_it():
    hot = cards((), (), ("hw_thermal", "sw_power_cap"), ())
    found = detect(well(), then(20, *slow(2, own=0.100)), hardware=hot)
    assert (found.cause, found.ranks, found.hosts, found.severity) == ("thermal_throttle", (2,), ("node-c",), "warning")
    assert "GPU 2 (GPU-2) on node-c lowers its clock at 91 °C: hw_thermal, sw_power_cap" in found.summary


def test_what_all_gpus_show_explains_no_slow_rank():
    capped = cards(*[("sw_power_cap",)] * 4)
    assert detect(well(), then(20, *slow(2, own=0.100)), hardware=capped).cause == "compute_straggler"


def test_slow_rank_of_a_young_job_is_told_where_its_gpu_is_hot():
    """Thirteen steps say little of chance, but the card says the same."""
    young = then(13, *slow(2, own=0.100))
    young = [replace(step, stands_for=8) for step in young]  # as many seconds as it takes
    found = detect(young, hardware=cards((), (), ("hw_thermal",), ()))
    assert (found.cause, found.ranks, found.severity) == ("thermal_throttle", (2,), "warning")
    assert detect(young, hardware=cards((), (), (), ())) is None
    assert detect(young, hardware=cards((), ("hw_thermal",), (), ())).severity == "info"  # another one's


def test_slow_rank_whose_gpu_is_capped_is_told_of_it_and_not_called_hot():
    capped = cards((), (), ("sw_power_cap",), ())
    found = detect(well(), then(20, *slow(2, own=0.100)), hardware=capped)
    assert (found.cause, found.ranks) == ("compute_straggler", (2,))
    assert "lowers its clock at 91 °C: sw_power_cap" in found.summary


def test_slow_loader_on_a_capped_gpu_is_the_inputs_and_the_cap_is_not_told():
    found = detect(well(), then(20, *slow(2, data=0.060)), hardware=cards((), (), ("sw_power_cap",), ()))
    assert found.cause == "input_straggler"
    assert "lowers its clock" not in found.summary


def test_gpu_that_is_too_hot_is_told_before_it_costs_anything():
    found = detect(well(), hardware=cards((), ("sw_thermal",), (), ()))
    assert (found.cause, found.ranks, found.severity) == ("thermal_throttle", (1,), "info")
    assert "does not hold the others back" in found.summary


def test_power_cap_of_a_rank_that_keeps_up_is_no_news():
    assert detect(well(), hardware=cards((), ("sw_power_cap",), (), ())) is None


def test_slow_rank_on_a_host_whose_processes_wait_for_a_core_is_starved():
    hosts = [host(name, pressure={"cpu": 8.0 if name == "node-c" else 0.5}) for name in HOSTS]
    found = detect(well(), then(20, *slow(2, own=0.100)), hardware=hosts)
    assert (found.cause, found.ranks, found.hosts) == ("host_pressure", (2,), ("node-c",))
    assert "on node-c it waited 8.0 s of the last 60 s for cpu" in found.summary


def test_slow_rank_whose_share_of_cores_is_used_up_is_starved():
    hosts = [host(name, ranks=(at,), held_back=4.0 if at == 2 else 0.0) for at, name in enumerate(HOSTS)]
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


def test_one_of_several_ranks_of_a_host_is_not_starved_by_what_all_of_them_share():
    hosts = [host("node-a", pressure={"cpu": 30.0}, ranks=range(8), held_back=20.0)]
    found = detect(well(size=8), then(20, *slow(2, 8, own=0.100)), size=8, hardware=hosts)
    assert found.cause == "compute_straggler"


# -- the network -------------------------------------------------------------------------------------------


def test_host_is_named_whose_connections_are_slow_while_all_wait_longer_and_no_rank_is_late():
    found = detect(well(), then(20, *[rank(exchange=0.090)] * 4), baseline=GOOD, hardware=connected())
    assert (found.cause, found.ranks, found.hosts) == ("network_slow", (), ("node-c",))
    assert found.evidence.device == "eth1"
    assert "90.0 ms of a step of 164.2 ms are exposed time" in found.summary
    assert "(30.0 ms in the baseline)" in found.summary
    assert "ethtool eth1" in found.detail


def test_network_that_was_slow_from_the_start_is_told_where_it_is_most_of_the_step():
    always = steps(40, *[rank(exchange=0.090)] * 4, stands_for=2)
    assert detect(always, hardware=connected()).cause == "network_slow"


@pytest.mark.parametrize(
    "hardware", [(), connected(busy=0.15), connected()[2:]], ids=["unknown", "alike", "of two hosts"]
)
def test_network_that_points_at_no_host_is_not_told(hardware):
    assert detect(well(), then(20, *[rank(exchange=0.090)] * 4), baseline=GOOD, hardware=hardware) is None


def test_slow_link_of_a_young_job_is_told_though_most_of_the_step_is_computing():
    """Nobody knows yet what its collectives take while it is well; a third of the step goes by in them."""
    found = detect(well(), baseline=None, hardware=connected())
    assert (found.cause, found.hosts) == ("network_slow", ("node-c",))
    assert detect(well(), baseline=None, hardware=connected(busy=0.1)) is None


def test_slow_link_that_costs_nothing_is_not_told():
    assert detect(well(), baseline=GOOD, hardware=connected()) is None


def test_rank_that_is_late_is_named_although_the_others_wait_in_collectives():
    guilty = [rank(own=0.060, exchange=0.090) if at != 1 else rank(own=0.120) for at in range(4)]
    assert detect(well(), then(20, *guilty), baseline=GOOD).ranks == (1,)
