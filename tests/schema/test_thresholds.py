"""Tests of thresholds that a site sets by name. Unknown names and invalid values are refused in one line."""

import math

import pytest

from zmon import detectors
from zmon.detectors.slow.straggler import Straggler
from zmon.errors import UsageError
from zmon.job.lease import Leases
from zmon.schema.thresholds import Threshold, build, changed


def test_unset_thresholds_keep_their_defaults():
    assert detectors.configured({}) == detectors.configured(None) == detectors.ALL
    assert detectors.configured({"stall": None}) == detectors.ALL


def test_setting_changes_only_its_detector():
    used = detectors.configured({"straggler": {"slower_ratio": 0.3, "num_steps": 24.0}})
    (straggler,) = set(used) - set(detectors.ALL)
    assert straggler == Straggler(slower_ratio=0.3, num_steps=24)
    assert isinstance(straggler.num_steps, int)
    assert [detector.name for detector in used] == [detector.name for detector in detectors.ALL]


def test_whole_number_is_accepted_as_seconds():
    leases = build(Leases(), {"eval_seconds": 3600}, "leases")
    assert (leases.eval_seconds, type(leases.eval_seconds)) == (3600.0, float)


def test_changed_lists_thresholds_that_differ_from_the_defaults():
    used = detectors.configured({"coverage": {"silent_seconds": 30}, "stall": {"cut_seconds": 1.0}})
    assert detectors.changed(used) == (Threshold("detectors.coverage.silent_seconds", 10.0, 30.0),)
    assert changed(Leases(), "leases") == ()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"stragler": {}}, "detectors.stragler: there is no detector stragler; the nearest is straggler. Write"),
        ({"straggler": {"slower_ratoi": 1}}, "no threshold slower_ratoi; the nearest is slower_ratio"),
        ({"straggler": {"name": "x"}}, "straggler.name: there is no threshold name. Write one of slower_ratio, cost_"),
        ({"straggler": {"slower_ratio": 0}}, "detectors.straggler.slower_ratio: it is 0, but must be more than 0"),
        ({"straggler": {"slower_ratio": "x"}}, "slower_ratio: it is 'x', which is not a number. The default is 0.2"),
        ({"straggler": {"slower_ratio": True}}, "it is True, which is not a number"),
        ({"straggler": {"slower_ratio": None}}, "it is None, which is not a number"),
        ({"straggler": {"slower_ratio": math.nan}}, "it is nan, which is not finite"),
        ({"straggler": {"slower_ratio": math.inf}}, "it is inf, which is not finite"),
        ({"straggler": {"num_steps": 10**400}}, "num_steps: it is larger than any float"),
        ({"straggler": {"cost_ratio": 1.5}}, "it is 1.5, but must be more than 0 and at most 1"),
        ({"straggler": {"quicker_ratio": 1}}, "it is 1, but must be more than 1"),
        ({"straggler": {"num_steps": 1.5}}, "detectors.straggler.num_steps: it is 1.5, but must be a whole number"),
        ({"straggler": {"alike_ratio": 3}}, "detectors.straggler: alike_ratio is 3, more than quicker_ratio, 2.5"),
        ({"slowdown": {"over_ratio": 1.4}}, "detectors.slowdown: over_ratio is 1.4, more than slow_ratio, 1.3"),
        ({"straggler": 0.3}, "detectors.straggler: it is 0.3, but it needs names with values"),
        ([], "detectors: it is [], but it needs names with values"),
    ],
)
def test_invalid_setting_is_refused_in_one_line_with_its_dotted_key(settings, message):
    with pytest.raises(UsageError) as refused:
        detectors.configured(settings)
    assert message in str(refused.value)
    assert "docs/thresholds.md" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_detector_checks_its_values_at_construction():
    with pytest.raises(ValueError, match="slower_ratio is -1, but must be more than 0"):
        Straggler(slower_ratio=-1)
