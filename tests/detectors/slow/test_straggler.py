"""Tests of the detector `straggler`.

A rank that holds all others back is named while the job moves. Small or short differences are not reported.
"""

import random
from dataclasses import replace

import pytest

from tests.detectors.slow.slow_jobs import (
    cards,
    detect,
    healthy_steps,
    job,
    later_steps,
    rank,
    steps,
    with_slow_rank,
)
from tests.steps import changed
from zmon.detectors.slow.straggler import Straggler

# -- a rank ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [2, 4, 8])
@pytest.mark.parametrize("guilty", [0, 1])
def test_rank_that_computes_longer_is_named_with_its_cost(size, guilty):
    result = detect(healthy_steps(size=size), later_steps(20, *with_slow_rank(guilty, size, own=0.095)), size=size)
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


def test_rank_that_waits_longer_for_data_is_an_input_straggler():
    result = detect(healthy_steps(), later_steps(20, *with_slow_rank(2, data=0.060)))
    assert (result.cause, result.ranks, result.hosts) == ("input_straggler", (2,), ("node-c",))
    assert "mostly in data" in result.summary


def test_rank_that_is_slow_in_several_phases_has_an_unknown_cause():
    result = detect(healthy_steps(), later_steps(20, *with_slow_rank(2, own=0.085, data=0.035)))
    assert (result.cause, result.ranks) == ("unknown", (2,))


def test_rank_is_named_after_32_slow_steps_but_not_after_26():
    guilty = with_slow_rank(1, own=0.100)
    assert detect(healthy_steps(), later_steps(13, *guilty)) is None
    assert detect(healthy_steps(), later_steps(16, *guilty)).ranks == (1,)


def test_slow_rank_is_named_within_twelve_steps_if_steps_are_long():
    guilty = [rank(own=1.2), rank(own=1.2), rank(own=2.0), rank(own=1.2)]
    result = detect(steps(48, *[rank(own=1.2)] * 4), steps(12, *guilty, first=49))
    assert (result.cause, result.ranks) == ("compute_straggler", (2,))


def test_rank_that_is_slow_from_the_start_is_named_after_enough_steps():
    result = detect(steps(36, *with_slow_rank(3, own=0.085), stands_for=2))
    assert (result.cause, result.ranks) == ("compute_straggler", (3,))


def test_all_ranks_of_a_slow_host_are_named():
    sick = [rank(own=0.100 if number in (2, 3) else 0.060) for number in range(8)]
    result = detect(healthy_steps(size=8), later_steps(20, *sick), size=8)
    assert result.ranks == (2, 3)
    assert "rank 3 on node-a hold the others back" in result.summary
    assert "; if they were as fast as the others" in result.summary


def test_rank_that_is_slow_between_the_reported_steps_is_named():
    """The rank is slow only in steps whose number is not divisible by eight."""
    is_comparable, marked = later_steps(20, *with_slow_rank(2)), later_steps(20, *with_slow_rank(2, own=0.100))
    assert detect(
        healthy_steps(), [replace(step, mean=mean) for step, mean in zip(is_comparable, marked, strict=True)]
    ).ranks == (2,)


def test_straggler_ignores_a_rank_that_is_slow_in_the_reported_steps_only():
    is_comparable, marked = later_steps(20, *with_slow_rank(2)), later_steps(20, *with_slow_rank(2, own=0.100))
    assert (
        detect(healthy_steps(), [replace(step, mean=mean) for step, mean in zip(marked, is_comparable, strict=True)])
        is None
    )


def noisy(seed, data=0.0):
    """Return steps of ranks whose self time varies by a third; one of them waits longer for its data."""
    draw = random.Random(seed)
    for step in later_steps(20):
        late = tuple(0.010 * draw.uniform(0.9, 1.1) + data * (rank == 2) for rank in range(4))
        own = tuple(a + 0.060 * draw.lognormvariate(0, 0.3) for a in late)
        forward = tuple(a - b for a, b in zip(own, late, strict=True))
        yield changed(step, self_seconds=own, phases={"data": late, "forward": forward}, seconds=max(own) + 0.030)


@pytest.mark.parametrize("seed", range(8))
def test_slow_loader_is_separated_from_the_noise_of_computing(seed):
    before = [step for other in (100, 200) for step in noisy(other + seed)]
    result = detect(before, noisy(seed, data=0.035))
    assert (result.cause, result.ranks) == ("input_straggler", (2,))


def test_straggler_reports_nothing_when_self_times_are_equal():
    """The rank waits longer for data than the others, and computes for less time."""
    assert detect(healthy_steps(), later_steps(20, *with_slow_rank(2, data=0.040, own=0.030))) is None


def test_confidence_rises_with_the_duration():
    guilty = with_slow_rank(1, own=0.100)
    just, long = detect(healthy_steps(), later_steps(16, *guilty)), detect(later_steps(64, *guilty))
    assert just.confidence < long.confidence <= 0.95
    assert long.onset < just.onset


def test_lost_gpu_hours_are_the_saved_time_and_unknown_for_a_hot_gpu():
    result = detect(healthy_steps(), later_steps(20, *with_slow_rank(1, own=0.095)))
    saved, seconds = result.evidence.saved_seconds, result.evidence.step_seconds
    assert result.lost_gpu_hours == pytest.approx(4 * (result.detected - result.onset) / 3600 * saved / seconds)
    assert detect(healthy_steps(), hardware=cards((), ("sw_thermal",), (), ())).lost_gpu_hours is None


# -- quiet -------------------------------------------------------------------------------------------------


def test_straggler_reports_nothing_when_all_ranks_are_equally_fast():
    assert detect(healthy_steps(64)) is None


def test_straggler_reports_nothing_when_a_rank_is_five_percent_slower():
    assert detect(steps(64, *with_slow_rank(1, own=0.0635, data=0.0105), stands_for=2)) is None


def test_straggler_reports_nothing_when_a_rank_pauses_for_ten_steps():
    assert detect(healthy_steps(), later_steps(1, *with_slow_rank(1, own=1.0)), later_steps(15)) is None


def test_straggler_reports_nothing_when_a_core_is_contended_for_two_seconds():
    contended = later_steps(10, *with_slow_rank(1, own=0.120))
    for after in range(16):
        assert detect(healthy_steps(), contended, later_steps(after)) is None


def test_straggler_reports_nothing_when_another_rank_is_slow_in_each_step():
    moving = [step for number in range(64) for step in later_steps(1, *with_slow_rank(number % 4, own=0.120))]
    assert detect(moving) is None


def test_straggler_reports_nothing_if_another_rank_is_as_late_in_each_step():
    """Rank 1 always has long sequences, and in each step another rank has longer ones: nothing would be gained."""
    others = [rank(own=0.060 + 0.030 * (number == 1)) for number in range(4)]
    uneven = [
        step
        for number in range(64)
        for step in later_steps(1, *(rank(own=0.095) if r == (0, 2, 3)[number % 3] else others[r] for r in range(4)))
    ]
    assert detect(uneven) is None
    assert detect(healthy_steps(), later_steps(20, *others)).ranks == (1,)


@pytest.mark.parametrize(("size", "seed"), [(2, 5), (4, 0), (4, 3), (8, 5)])
def test_straggler_names_nobody_if_a_random_rank_is_late_in_each_step(size, seed):
    """Some rank is late in most of the last steps by chance."""
    draw = random.Random(seed)
    moving = [
        step for _ in range(300) for step in later_steps(1, *with_slow_rank(draw.randrange(size), size, data=0.110))
    ]
    assert [detect(moving[end - 64 : end], size=size) for end in range(64, 300, 4)] == [None] * 59


@pytest.mark.parametrize("amount", ["tokens", "lookups", "samples"])
def test_straggler_reports_nothing_when_a_rank_has_more_work(amount):
    """The rank is late because of how the work is split."""
    bare = steps(64, *(rank(own=0.060 * times) for times in (1, 1, 2, 1)), stands_for=2)
    assert detect(bare).ranks == (2,)
    assert detect([replace(s, columns={**s.columns, amount: (1000, 1000, 2000, 1000)}) for s in bare]) is None


def test_rank_with_more_lookups_is_no_straggler_if_first_step_has_none():
    first, *others = _working([rank(own=0.060 * times, lookups=1000 * times) for times in (1, 1, 2, 1)])
    assert detect([changed(first, lookups=(None,) * 4)], others) is None


def test_rank_with_slightly_more_lookups_and_twice_the_time_is_named():
    ranks_with_more = [
        rank(own=0.060 * times, lookups=lookups) for times, lookups in ((1, 1000), (1, 1000), (2, 1050), (1, 1000))
    ]
    assert detect(_working(ranks_with_more)).ranks == (2,)


def _working(ranks):
    """Return steps whose ranks report their numbers of lookups."""
    bare = [{key: value for key, value in r.items() if key != "lookups"} for r in ranks]
    return [changed(step, lookups=tuple(r["lookups"] for r in ranks)) for step in steps(64, *bare, stands_for=2)]


def test_straggler_reports_nothing_when_half_of_the_ranks_are_slower():
    """The ranks are stages of a pipeline."""
    stages = [rank(own=0.100 if number >= 2 else 0.060) for number in range(4)]
    assert detect(steps(64, *stages, stands_for=2)) is None


def test_straggler_reports_nothing_when_few_steps_are_known():
    guilty = with_slow_rank(1, own=0.120)
    assert detect(steps(20, *guilty, stands_for=2)) is None
    assert detect() is None


def test_straggler_ignores_a_finished_job():
    assert detect(healthy_steps(), later_steps(20, *with_slow_rank(1, own=0.100)), activity="done") is None


def test_inert_reason_names_the_missing_input():
    assert Straggler().inert_reason(job(healthy_steps())) is None
    assert "one rank" in Straggler().inert_reason(replace(job(healthy_steps()), world_size=1))
    assert "no agent reports some of its ranks" in Straggler().inert_reason(replace(job(healthy_steps()), missing=(3,)))
    assert "no step" in Straggler().inert_reason(job())
