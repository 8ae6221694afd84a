"""What a job reaches of what was recorded: weak or strong, and unknown where nothing compares."""

import pytest

from zmon.schema.curve import STRONG, WEAK, Curve, Efficiency, Point, alike
from zmon.schema.unknown import Unknown


def point(ranks, samples, seconds):
    return Point(ranks=ranks, samples=samples, seconds=seconds, by="zmon scaling", recorded=1.8e9)


ALONE = point(1, 512, 0.100)
CURVE = Curve("ranker", (ALONE, point(2, 1024, 0.110), point(2, 512, 0.060), point(4, 2048, 0.125)))


def test_same_samples_a_rank_are_weak_scaling_from_the_fewest_ranks():
    found = CURVE.efficiency(4, 2048, samples_per_second=2048 / 0.200)
    assert isinstance(found, Efficiency)
    assert (found.scaling, found.reference, found.name) == (WEAK, ALONE, "ranker")
    assert found.ratio == pytest.approx(0.5)
    assert found.recorded == pytest.approx(0.8)


def test_same_samples_in_all_are_strong_scaling():
    found = CURVE.efficiency(4, 512, samples_per_second=512 / 0.050)
    assert (found.scaling, found.reference) == (STRONG, ALONE)
    assert found.ratio == pytest.approx(0.5)
    assert found.recorded is None  # four ranks were recorded with other samples only


def test_weak_scaling_goes_before_strong_where_both_hold():
    both = Curve("ranker", (point(1, 1024, 0.2), point(2, 512, 0.06)))
    scaling, reference = both.reference(4, 1024)
    assert (scaling, reference.ranks) == (WEAK, 2)


def test_job_at_a_recorded_size_is_held_against_it_alone_where_nothing_smaller_is_known():
    alone = Curve("ranker", (point(8, 4096, 0.1),))
    found = alone.efficiency(8, 4096, samples_per_second=4096 / 0.1)
    assert (found.scaling, found.ratio, found.recorded) == (WEAK, pytest.approx(1.0), pytest.approx(1.0))


@pytest.mark.parametrize(
    ("curve", "ranks", "samples", "why"),
    [
        (Curve("ranker"), 4, 2048, "recorded: nothing"),
        (CURVE, 4, 9999, "1 × 512, 2 × 512, 2 × 256, 4 × 512"),
        (Curve("ranker", (point(8, 4096, 0.1),)), 4, 2048, "8 × 512"),  # fewer ranks do not scale from more
    ],
)
def test_what_compares_with_nothing_is_unknown_and_says_what_was_recorded(curve, ranks, samples, why):
    told = curve.efficiency(ranks, samples, samples_per_second=1000.0)
    assert isinstance(told, Unknown)
    assert why in told.reason


def test_point_takes_the_place_of_the_one_at_its_size_only():
    better = point(2, 1000, 0.105)
    curve = CURVE.with_point(better)
    assert curve.nearest_point(2, 1024) == better
    assert [(p.ranks, p.samples) for p in curve.points] == [(1, 512), (2, 512), (2, 1000), (4, 2048)]


def test_samples_are_alike_within_a_tenth():
    assert alike(512, 500)
    assert not alike(512, 460)


def test_of_two_sizes_that_are_alike_the_nearest_is_meant():
    two = Curve("ranker", (point(4, 1000, 0.1), point(4, 1120, 0.2)))
    assert two.nearest_point(4, 1070).samples == 1120
    assert two.nearest_point(4, 1050).samples == 1000
    assert len(two.points_of_size(4, 1060)) == 2
