"""Tests of `dashboards.predictions`. A prediction that the hub does not send in full is None, with a reason."""

import pytest
from msgspec import UNSET

from dashboards.predictions import PredictedStep, efficiency_ratio, predicted_step, why_unknown
from zmon.schema.api import EfficiencyAnswer, StepAnswer


def test_predicted_step_has_all_parts_of_answer():
    assert predicted_step(StepAnswer(0.06, {"own": 0.06}, 17066.0)) == PredictedStep(0.06, {"own": 0.06}, 17066.0)


@pytest.mark.parametrize("step", [None, StepAnswer(), StepAnswer(unknown="nobody knows"), StepAnswer(seconds=0.06)])
def test_predicted_step_is_none_if_answer_is_incomplete(step):
    assert predicted_step(step) is None


def test_unknown_step_has_reason_of_hub_or_default_reason():
    assert why_unknown(StepAnswer(unknown="nobody knows")) == "nobody knows"
    assert why_unknown(StepAnswer())


@pytest.mark.parametrize(
    ("efficiency", "ratio"),
    [(EfficiencyAnswer(0.9, "weak"), 0.9), (EfficiencyAnswer(unknown="nobody knows"), None), (UNSET, None)],
)
def test_efficiency_ratio_is_none_unless_hub_sends_ratio(efficiency, ratio):
    assert efficiency_ratio(efficiency) == ratio
