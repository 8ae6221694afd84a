"""Tests of the factor of the learning rate at each step: warm-up, decay and floor."""

import pytest

from trainer.errors import ConfigError
from trainer.schedule import ScheduleConfig, rate_factor

# The factors of facebookresearch/dlrm, from its step 1 on.
DLRM = [1 / 3, 2 / 3, 1, (3 / 4) ** 2, (2 / 4) ** 2, (1 / 4) ** 2, (1 / 4) ** 2]
FACTORS = {
    "default": ({}, [1, 1, 1]),
    "warm-up": ({"warmup_steps": 4}, [0.25, 0.5, 0.75, 1, 1, 1]),
    "decay to the floor": (
        {"decay_start_step": 2, "decay_steps": 4, "decay_power": 1, "floor": 0.1},
        [1, 1, 0.75, 0.5, 0.25, 0.1, 0.1, 0.1],
    ),
    "decay begins after the warm-up": (
        {"warmup_steps": 2, "decay_start_step": 0, "decay_steps": 2, "decay_power": 1},
        [0.5, 1, 0.5, 0, 0],
    ),
    "as facebookresearch/dlrm": ({"warmup_steps": 3, "decay_start_step": 3, "decay_steps": 4, "floor": 1 / 16}, DLRM),
}


@pytest.mark.parametrize(("config", "expected"), FACTORS.values(), ids=FACTORS)
def test_factor_of_the_rate_at_each_step(config: dict, expected: list[float]) -> None:
    factors = [rate_factor(ScheduleConfig(**config), step) for step in range(len(expected))]
    assert factors == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "value"),
    [("warmup_steps", -1), ("decay_steps", -1), ("decay_start_step", -1), ("decay_power", 0.0), ("floor", 1.5)],
)
def test_invalid_schedule_value_is_refused_with_its_key(name: str, value: float) -> None:
    with pytest.raises(ConfigError, match=f"schedule.{name} is {value}"):
        ScheduleConfig(**{name: value})
