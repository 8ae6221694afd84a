"""Tests of the efficiency of a job by its scaling curve. It is unknown if no recorded point compares."""

import pytest

from zmon.schema.curve import STRONG, WEAK, Efficiency, Point, ScalingCurve, are_similar
from zmon.schema.unknown import Unknown


def point(ranks, samples, seconds):
    """Return a point that `zmon scaling` has recorded: the samples of all ranks in a step, and its duration."""
    return Point(ranks=ranks, samples=samples, seconds=seconds, by="zmon scaling", recorded=1.8e9)


ALONE = point(1, 512, 0.100)
CURVE = ScalingCurve("ranker", (ALONE, point(2, 1024, 0.110), point(2, 512, 0.060), point(4, 2048, 0.125)))


def test_equal_samples_per_rank_are_weak_scaling():
    efficiency = CURVE.efficiency(4, 2048, samples_per_second=2048 / 0.200)
    assert isinstance(efficiency, Efficiency)
    assert (efficiency.scaling, efficiency.reference, efficiency.name) == (WEAK, ALONE, "ranker")
    assert efficiency.ratio == pytest.approx(0.5)
    assert efficiency.recorded == pytest.approx(0.8)


def test_equal_samples_in_all_are_strong_scaling():
    efficiency = CURVE.efficiency(4, 512, samples_per_second=512 / 0.050)
    assert (efficiency.scaling, efficiency.reference) == (STRONG, ALONE)
    assert efficiency.ratio == pytest.approx(0.5)
    assert efficiency.recorded is None  # four ranks were recorded with other samples only


def test_weak_scaling_is_preferred_to_strong_scaling():
    both = ScalingCurve("ranker", (point(1, 1024, 0.2), point(2, 512, 0.06)))
    scaling, reference = both.reference(4, 1024)
    assert (scaling, reference.ranks) == (WEAK, 2)


def test_recorded_size_without_a_smaller_size_is_its_own_reference():
    alone = ScalingCurve("ranker", (point(8, 4096, 0.1),))
    efficiency = alone.efficiency(8, 4096, samples_per_second=4096 / 0.1)
    assert (efficiency.scaling, efficiency.ratio, efficiency.recorded) == (WEAK, pytest.approx(1.0), pytest.approx(1.0))


@pytest.mark.parametrize(
    ("curve", "ranks", "samples", "why"),
    [
        (ScalingCurve("ranker"), 4, 2048, "recorded: nothing"),
        (CURVE, 4, 9999, "1 × 512, 2 × 512, 2 × 256, 4 × 512"),
        (ScalingCurve("ranker", (point(8, 4096, 0.1),)), 4, 2048, "8 × 512"),  # fewer ranks do not scale from more
    ],
    ids=["empty curve", "other samples", "only a larger size"],
)
def test_size_without_reference_is_unknown_with_the_recorded_sizes(curve, ranks, samples, why):
    efficiency = curve.efficiency(ranks, samples, samples_per_second=1000.0)
    assert isinstance(efficiency, Unknown)
    assert why in efficiency.reason


def test_point_replaces_only_points_of_its_size():
    better = point(2, 1000, 0.105)
    curve = CURVE.with_point(better)
    assert curve.nearest_point(2, 1024) == better
    assert [(p.ranks, p.samples) for p in curve.points] == [(1, 512), (2, 512), (2, 1000), (4, 2048)]


def test_samples_are_similar_within_a_tenth():
    assert are_similar(512, 500)
    assert not are_similar(512, 460)


def test_nearest_of_two_similar_sizes_is_used():
    two = ScalingCurve("ranker", (point(4, 1000, 0.1), point(4, 1120, 0.2)))
    assert two.nearest_point(4, 1070).samples == 1120
    assert two.nearest_point(4, 1050).samples == 1000
    assert len(two.points_of_size(4, 1060)) == 2
