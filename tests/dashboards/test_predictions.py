"""A prediction is known only if the hub has sent it."""

import pytest
from msgspec import UNSET

from dashboards.predictions import PredictedStep, efficiency_ratio, predicted, why_unknown
from zmon.schema.api import EfficiencyAnswer, StepAnswer


def test_a_predicted_step_is_known_with_all_its_parts():
    assert predicted(StepAnswer(0.06, {"own": 0.06}, 17066.0)) == PredictedStep(0.06, {"own": 0.06}, 17066.0)


@pytest.mark.parametrize("step", [None, StepAnswer(), StepAnswer(unknown="nobody knows"), StepAnswer(seconds=0.06)])
def test_a_step_that_the_hub_leaves_out_is_unknown(step):
    assert predicted(step) is None


def test_the_reason_why_a_step_is_unknown_comes_from_the_hub():
    assert why_unknown(StepAnswer(unknown="nobody knows")) == "nobody knows"
    assert why_unknown(StepAnswer())


@pytest.mark.parametrize(
    ("efficiency", "ratio"),
    [(EfficiencyAnswer(0.9, "weak"), 0.9), (EfficiencyAnswer(unknown="nobody knows"), None), (UNSET, None)],
)
def test_an_efficiency_is_known_if_the_hub_has_sent_it(efficiency, ratio):
    assert efficiency_ratio(efficiency) == ratio
