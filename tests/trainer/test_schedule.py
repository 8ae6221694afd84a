"""Tests of the factor of the learning rate at each step: warm-up, decay and floor."""

import pytest

from trainer.errors import ConfigError
from trainer.schedule import ScheduleConfig, rate_factor


def factors(config: ScheduleConfig, steps: int) -> list[float]:
    return [rate_factor(config, step) for step in range(steps)]


def test_factor_is_1_by_default() -> None:
    assert factors(ScheduleConfig(), 3) == [1, 1, 1]


def test_factor_rises_evenly_to_1_during_warmup() -> None:
    assert factors(ScheduleConfig(warmup_steps=4), 6) == [0.25, 0.5, 0.75, 1, 1, 1]


def test_factor_falls_to_floor_and_stays() -> None:
    config = ScheduleConfig(decay_start_step=2, decay_steps=4, decay_power=1, floor=0.1)
    assert factors(config, 8) == [1, 1, 0.75, 0.5, 0.25, 0.1, 0.1, 0.1]


def test_factor_equals_schedule_of_facebookresearch_dlrm() -> None:
    """The decay follows the warm-up, and its last value is the floor. The steps of the original count from 1."""
    expected = [1 / 3, 2 / 3, (4 / 4) ** 2, (3 / 4) ** 2, (2 / 4) ** 2, (1 / 4) ** 2, (1 / 4) ** 2, (1 / 4) ** 2]
    config = ScheduleConfig(warmup_steps=3, decay_start_step=3, decay_steps=4, floor=1 / 16)
    assert factors(config, 8) == pytest.approx(expected)


def test_decay_begins_after_warmup() -> None:
    config = ScheduleConfig(warmup_steps=2, decay_start_step=0, decay_steps=2, decay_power=1)
    assert factors(config, 5) == [0.5, 1, 0.5, 0, 0]


@pytest.mark.parametrize(
    ("name", "value"),
    [("warmup_steps", -1), ("decay_steps", -1), ("decay_start_step", -1), ("decay_power", 0.0), ("floor", 1.5)],
)
def test_invalid_schedule_value_is_refused_with_its_key(name: str, value: float) -> None:
    with pytest.raises(ConfigError, match=f"schedule.{name} is {value}"):
        ScheduleConfig(**{name: value})
