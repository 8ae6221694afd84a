"""Test that one rank that holds all others back is named while the job moves."""

import random
from dataclasses import replace

import pytest

from tests.build import finding, waiting
from tests.detectors.slow_jobs import GOOD, HOSTS, cards, connected, detect, job, rank, slow, steps, then, well
from zmon.detectors.straggler import Straggler

# -- a rank ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [2, 4, 8])
@pytest.mark.parametrize("guilty", [0, 1])
def test_rank_with_half_as_much_more_compute_is_named_with_its_cost(size, guilty):
    result = detect(well(size=size), then(20, *slow(guilty, size, own=0.095)), size=size)
    assert (result.detector, result.cause, result.severity) == ("straggler", "compute_straggler", "warning")
    assert result.ranks == (guilty,)
    assert f"rank {guilty} on node-" in result.summary
    assert "% more than the median of the others (threshold 20%)" in result.summary
    assert "mostly in forward" in result.summary
    assert "for 36 steps" in result.summary
    assert f"kubectl cordon {result.hosts[0]}" in result.detail
    assert (result.op, result.sequence) == (None, None)
    assert len(result.evidence.own_seconds) <= 9
    assert result.evidence.saved_seconds == pytest.approx(0.035, rel=0.2)


def test_rank_that_waits_longer_for_its_data_is_the_inputs():
    result = detect(well(), then(20, *slow(2, data=0.060)))
    assert (result.cause, result.ranks, result.hosts) == ("input_straggler", (2,), ("node-c",))
    assert "mostly in data" in result.summary


def test_rank_that_is_slow_in_all_it_does_is_named_without_a_cause():
    result = detect(well(), then(20, *slow(2, own=0.085, data=0.035)))
    assert (result.cause, result.ranks) == ("unknown", (2,))


def test_rank_is_named_after_three_seconds_and_a_quarter_and_not_before():
    guilty = slow(1, own=0.100)
    assert detect(well(), then(13, *guilty)) is None
    assert detect(well(), then(16, *guilty)).ranks == (1,)


def test_rank_of_a_job_of_long_steps_is_named_within_a_dozen_steps():
    guilty = [rank(own=1.2), rank(own=1.2), rank(own=2.0), rank(own=1.2)]
    result = detect(steps(48, *[rank(own=1.2)] * 4), steps(12, *guilty, first=49))
    assert (result.cause, result.ranks) == ("compute_straggler", (2,))


def test_rank_that_is_slow_from_the_start_is_named_after_enough_steps():
    result = detect(steps(36, *slow(3, own=0.085), stands_for=2))
    assert (result.cause, result.ranks) == ("compute_straggler", (3,))


def test_all_ranks_of_a_slow_host_are_named():
    sick = [rank(own=0.100 if number in (2, 3) else 0.060) for number in range(8)]
    assert detect(well(size=8), then(20, *sick), size=8).ranks == (2, 3)


def test_rank_that_is_slow_between_the_reported_steps_is_named():
    """The rank is slow only in steps whose number is not divisible by eight."""
    is_comparable, marked = then(20, *slow(2)), then(20, *slow(2, own=0.100))
    assert detect(
        well(), [replace(step, mean=mean) for step, mean in zip(is_comparable, marked, strict=True)]
    ).ranks == (2,)


def test_straggler_reports_nothing_when_a_rank_is_slow_in_the_reported_steps_only():
    is_comparable, marked = then(20, *slow(2)), then(20, *slow(2, own=0.100))
    assert detect(well(), [replace(step, mean=mean) for step, mean in zip(marked, is_comparable, strict=True)]) is None


def noisy(seed, data=0.0):
    """Return steps of ranks whose self time varies by a third; one of them waits longer for its data."""
    draw = random.Random(seed)
    for step in then(20):
        late = tuple(0.010 * draw.uniform(0.9, 1.1) + data * (rank == 2) for rank in range(4))
        own = tuple(a + 0.060 * draw.lognormvariate(0, 0.3) for a in late)
        forward = tuple(a - b for a, b in zip(own, late, strict=True))
        yield replace(step, self_seconds=own, phases={"data": late, "forward": forward}, seconds=max(own) + 0.030)


@pytest.mark.parametrize("seed", range(8))
def test_slow_loader_is_separated_from_the_noise_of_computing(seed):
    before = [step for other in (100, 200) for step in noisy(other + seed)]
    result = detect(before, noisy(seed, data=0.035))
    assert (result.cause, result.ranks) == ("input_straggler", (2,))


def test_straggler_reports_nothing_when_a_rank_makes_up_for_its_data_elsewhere():
    """The rank reads the data that the others compute with."""
    assert detect(well(), then(20, *slow(2, data=0.040, own=0.030))) is None


def test_the_longer_it_lasts_the_surer_it_is():
    guilty = slow(1, own=0.100)
    just, long = detect(well(), then(16, *guilty)), detect(then(64, *guilty))
    assert just.confidence < long.confidence <= 0.95
    assert long.onset < just.onset


# -- quiet -------------------------------------------------------------------------------------------------


def test_straggler_reports_nothing_when_all_are_alike():
    assert detect(well(64)) is None


def test_straggler_reports_nothing_when_a_rank_is_five_percent_slower():
    assert detect(steps(64, *slow(1, own=0.0635, data=0.0105), stands_for=2)) is None


def test_straggler_reports_nothing_when_one_rank_pauses_for_ten_steps():
    assert detect(well(), then(1, *slow(1, own=1.0)), then(15)) is None


def test_straggler_reports_nothing_when_a_core_is_contended_for_two_seconds():
    contended = then(10, *slow(1, own=0.120))
    for after in range(16):
        assert detect(well(), contended, then(after)) is None


def test_straggler_reports_nothing_when_the_slow_one_moves():
    moving = [step for number in range(64) for step in then(1, *slow(number % 4, own=0.120))]
    assert detect(moving) is None


def test_straggler_reports_nothing_when_a_rank_has_more_to_do():
    """The rank is late because of how the work is split."""
    ranks_with_more = [rank(own=0.060 * times, lookups=1000 * times) for times in (1, 1, 2, 1)]
    assert detect(_working(ranks_with_more)) is None


def test_rank_with_more_work_is_no_straggler_if_early_steps_lack_the_work():
    first, *others = _working([rank(own=0.060 * times, lookups=1000 * times) for times in (1, 1, 2, 1)])
    assert detect([replace(first, lookups=(None,) * 4)], others) is None


def test_rank_with_a_little_more_to_do_is_not_excused_for_twice_the_time():
    ranks_with_more = [
        rank(own=0.060 * times, lookups=lookups) for times, lookups in ((1, 1000), (1, 1000), (2, 1050), (1, 1000))
    ]
    assert detect(_working(ranks_with_more)).ranks == (2,)


def _working(ranks):
    """Return steps whose ranks report their numbers of lookups."""
    bare = [{key: value for key, value in r.items() if key != "lookups"} for r in ranks]
    return [replace(step, lookups=tuple(r["lookups"] for r in ranks)) for step in steps(64, *bare, stands_for=2)]


def test_straggler_reports_nothing_when_half_of_the_ranks_are_slower():
    """The ranks are stages of a pipeline."""
    stages = [rank(own=0.100 if number >= 2 else 0.060) for number in range(4)]
    assert detect(steps(64, *stages, stands_for=2)) is None


def test_straggler_reports_nothing_when_few_steps_are_known():
    guilty = slow(1, own=0.120)
    assert detect(steps(20, *guilty, stands_for=2)) is None
    assert detect() is None


def test_straggler_reports_nothing_when_the_job_is_over():
    assert detect(well(), then(20, *slow(1, own=0.100)), activity="done") is None


def test_why_it_can_say_nothing():
    assert Straggler().inert_reason(job(well())) is None
    assert "one rank" in Straggler().inert_reason(replace(job(well()), world_size=1))
    assert "no agent reports some of its ranks" in Straggler().inert_reason(replace(job(well()), missing=(3,)))
    assert "no step" in Straggler().inert_reason(job())


# -- over --------------------------------------------------------------------------------------------------

ABOUT_ONE = finding(detector="straggler", cause="compute_straggler", ranks=(1,), hosts=("node-b",))


@pytest.mark.parametrize(
    ("own", "over"),
    [(0.060, True), (0.066, True), (0.076, False), (0.075, False)],
    ids=["well", "near", "less", "slow"],
)
def test_finding_resolves_only_well_below_the_threshold(own, over):
    now = job(well(), then(20, *slow(1, own=own)))
    assert Straggler().detect(now) == ()
    assert Straggler().can_resolve(now, ABOUT_ONE) is over


@pytest.mark.parametrize(("quick", "over"), [(6, False), (7, True)])
def test_it_is_over_once_the_rank_is_as_quick_as_the_others_in_most_steps(quick, over):
    now = job(then(40, *slow(1, own=0.100)), then(quick))
    assert Straggler().can_resolve(now, ABOUT_ONE) is over


def test_it_is_over_sooner_where_the_newest_steps_are_so_on_average():
    """Half of the ranks are above the threshold even in a healthy job if there is much jitter."""
    quick = [then(1, *slow(1, own=own)) for own in (0.070, 0.046, 0.069, 0.046, 0.070, 0.046, 0.055)]
    now = job(then(40, *slow(1, own=0.100)), *quick)
    assert Straggler().can_resolve(now, ABOUT_ONE)


def test_nothing_is_over_while_the_job_is_stalled_or_out_of_sight():
    now = job(well())
    stalled = replace(now, ranks=tuple(waiting(number, device="cpu", host=HOSTS[number]) for number in range(4)))
    assert not Straggler().can_resolve(stalled, ABOUT_ONE)
    assert not Straggler().can_resolve(replace(now, unwatched=now.ranks[:1]), ABOUT_ONE)
    assert not Straggler().can_resolve(job(steps(4, stands_for=2)), ABOUT_ONE)


def test_it_is_over_when_the_job_is():
    assert Straggler().can_resolve(job(then(20, *slow(1, own=0.100)), activity="done"), ABOUT_ONE)


def test_slow_network_is_over_when_collectives_take_what_they_did():
    open_finding = finding(detector="straggler", cause="network_slow", ranks=(), hosts=("node-c",))
    assert not Straggler().can_resolve(job(well(), then(20, *[rank(exchange=0.060)] * 4), baseline=GOOD), open_finding)
    assert Straggler().can_resolve(job(well(), baseline=GOOD), open_finding)


def test_slow_network_is_over_when_its_links_are_as_quick_as_the_others():
    """Collectives may be most of the step by design."""
    open_finding = finding(detector="straggler", cause="network_slow", ranks=(), hosts=("node-c",))
    now = steps(40, *[rank(exchange=0.090)] * 4, stands_for=2)
    assert Straggler().can_resolve(job(now, hardware=connected(busy=0.1)), open_finding)
    assert not Straggler().can_resolve(job(now, hardware=connected()), open_finding)
    assert not Straggler().can_resolve(job(now), open_finding)


def test_hot_gpu_finding_stays_open_while_its_driver_does_not_answer():
    open_finding = finding(detector="straggler", cause="thermal_throttle", ranks=(1,), hosts=("node-b",))
    assert not Straggler().can_resolve(job(well()), open_finding)
    assert Straggler().can_resolve(job(well(), hardware=cards((), (), (), ())), open_finding)


def test_finding_resolves_without_the_culprit_or_other_ranks():
    now = job(well(), then(20, *slow(1, own=0.100)))
    assert Straggler().can_resolve(replace(now, world_size=1, ranks=now.ranks[:1]), ABOUT_ONE)
    without = tuple(r for r in now.ranks if r.rank != 1)
    assert Straggler().can_resolve(replace(now, ranks=without, missing=(1,)), ABOUT_ONE)


def test_finding_stays_open_while_an_agent_is_silent():
    now = job(well(), then(20, *slow(1, own=0.060)))
    for number in (1, 2):
        unwatched = tuple(r for r in now.ranks if r.rank == number)
        watched = tuple(r for r in now.ranks if r.rank != number)
        assert not Straggler().can_resolve(replace(now, ranks=watched, unwatched=unwatched), ABOUT_ONE)


def test_cost_is_the_saved_part_of_a_step_and_0_for_a_hot_gpu():
    result = detect(well(), then(20, *slow(1, own=0.095)))
    saved, seconds = result.evidence.saved_seconds, result.evidence.step_seconds
    assert result.lost_gpu_hours == pytest.approx(4 * (result.detected - result.onset) / 3600 * saved / seconds)
    assert detect(well(), hardware=cards((), ("sw_thermal",), (), ())).lost_gpu_hours is None
