"""Tests of the thresholds of a comparison. Each one fails, passes, or is unknown because of noise."""

import pytest

from zmon.errors import UsageError
from zmon.offline.compare import Change, Gate


def evaluate(threshold, change, half_width, name="step_seconds", reason=""):
    """Return whether a run passes a threshold, None if it is unknown, and the reason."""
    judged = Change(
        name=name, unit="s", before=0.04, after=0.04, change=change, half_width=half_width, result="alike",
        reason=reason,
    )  # fmt: skip
    return Gate.parse(threshold).judge([judged])


@pytest.mark.parametrize(
    ("threshold", "change", "half_width", "passed"),
    [
        ("step_seconds>+3%", 0.035, 0.01, False),
        ("step_seconds>3%", 0.035, 0.01, False),
        ("step_seconds > +3 %", 0.025, 0.01, True),
        ("step_seconds>+3%", -0.2, 0.01, True),
        ("step_seconds>+3%", 0.035, 0.04, None),
        ("step_seconds>+3%", 0.0, 0.04, None),
        ("step_seconds>+3%", 0.09, 0.04, False),
        ("step_seconds<-2.5%", -0.03, 0.01, False),
        ("step_seconds<2.5%", -0.03, 0.01, False),
        ("step_seconds<-2.5%", 0.03, 0.01, True),
        ("step_seconds>0%", 0.001, 0.0, False),
        ("step_seconds>0%", 0.0, 0.0, True),
    ],
)
def test_threshold_fails_passes_or_is_unknown(threshold, change, half_width, passed):
    result, _ = evaluate(threshold, change, half_width)
    assert result is passed


def test_reason_contains_change_and_error():
    assert evaluate("step_seconds>+3%", 0.052, 0.01) == (False, "step_seconds>+3%: it is +5.2% ± 1.0%")


def test_name_of_a_gauge_may_have_a_slash():
    passed, _ = evaluate("train/loss>+1%", 0.02, 0.005, name="train/loss")
    assert passed is False


def test_unknown_change_neither_passes_nor_fails():
    assert evaluate("step_seconds>+3%", None, None, reason="too few") == (None, "step_seconds>+3%: unknown, too few")
    assert evaluate("all_to_all>+3%", None, None, reason="too few") == (None, "all_to_all>+3%: unknown, too few")


def test_unknown_quantity_is_refused_with_the_nearest_name():
    with pytest.raises(
        UsageError, match=r"neither run has step_second: they have step_seconds\. Did you mean step_seconds\?"
    ):
        evaluate("step_second>+3%", 0.0, 0.01)


@pytest.mark.parametrize(
    "text", ["", "step_seconds", "step_seconds>3", "step_seconds=3%", ">3%", "step_seconds>three%"]
)
def test_invalid_threshold_is_refused_with_an_example(text):
    with pytest.raises(UsageError, match='Write it like "step_seconds>'):
        Gate.parse(text)


@pytest.mark.parametrize("text", ["step_seconds>-3%", "samples_per_second<+3%"])
def test_threshold_that_would_fail_without_a_change_is_refused(text):
    with pytest.raises(UsageError, match="would fail if nothing changed"):
        Gate.parse(text)
