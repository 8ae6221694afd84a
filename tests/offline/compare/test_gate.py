"""A threshold fails what is beyond it and beyond chance, and passes only what would have shown."""

import pytest

from zmon.errors import UsageError
from zmon.offline.compare import Change, Gate


def judged(threshold, change, half_width, name="step_seconds", reason=""):
    return Gate.parse(threshold).judge([Change(name, "s", 0.04, 0.04, change, half_width, "alike", reason)])


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
def test_what_passes(threshold, change, half_width, passed):
    assert judged(threshold, change, half_width)[0] is passed


def test_why_has_the_numbers():
    assert judged("step_seconds>+3%", 0.052, 0.01) == (False, "step_seconds>+3%: it is +5.2% ± 1.0%")


def test_gauge_may_be_called_what_its_job_calls_it():
    assert judged("train/loss>+1%", 0.02, 0.005, name="train/loss")[0] is False


def test_what_was_not_judged_neither_passes_nor_fails():
    assert judged("step_seconds>+3%", None, None, reason="too few") == (None, "step_seconds>+3%: unknown, too few")
    assert judged("all_to_all>+3%", None, None, reason="too few") == (None, "all_to_all>+3%: unknown, too few")


def test_quantity_that_neither_run_tells_is_refused_with_the_nearest():
    with pytest.raises(
        UsageError, match=r"neither run tells step_second: known are step_seconds\. Did you mean step_seconds\?"
    ):
        judged("step_second>+3%", 0.0, 0.01)


@pytest.mark.parametrize(
    "text", ["", "step_seconds", "step_seconds>3", "step_seconds=3%", ">3%", "step_seconds>three%"]
)
def test_what_is_no_threshold_is_refused_with_an_example(text):
    with pytest.raises(UsageError, match='Write it like "step_seconds>'):
        Gate.parse(text)


@pytest.mark.parametrize("text", ["step_seconds>-3%", "samples_per_second<+3%"])
def test_threshold_that_fails_what_did_not_change_is_refused(text):
    with pytest.raises(UsageError, match="would fail where nothing changed"):
        Gate.parse(text)
