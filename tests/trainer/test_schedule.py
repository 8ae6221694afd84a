"""Tests of the learning rate factor, step by step."""

import pytest

from trainer.errors import ConfigError
from trainer.schedule import ScheduleConfig, rate_factor


def factors(config: ScheduleConfig, steps: int) -> list[float]:
    return [rate_factor(config, step) for step in range(steps)]


def test_is_one_when_nothing_is_set() -> None:
    assert factors(ScheduleConfig(), 3) == [1, 1, 1]


def test_rises_evenly_to_one() -> None:
    assert factors(ScheduleConfig(warmup_steps=4), 6) == [0.25, 0.5, 0.75, 1, 1, 1]


def test_falls_to_the_floor_and_stays() -> None:
    config = ScheduleConfig(decay_start_step=2, decay_steps=4, decay_power=1, floor=0.1)
    assert factors(config, 8) == [1, 1, 0.75, 0.5, 0.25, 0.1, 0.1, 0.1]


def test_is_the_schedule_of_facebookresearch_dlrm() -> None:
    """Compare with a decay right after the warm-up and its last value as floor; their steps count from 1."""
    expected = [1 / 3, 2 / 3, (4 / 4) ** 2, (3 / 4) ** 2, (2 / 4) ** 2, (1 / 4) ** 2, (1 / 4) ** 2, (1 / 4) ** 2]
    config = ScheduleConfig(warmup_steps=3, decay_start_step=3, decay_steps=4, floor=1 / 16)
    assert factors(config, 8) == pytest.approx(expected)


def test_the_decay_waits_for_the_warmup() -> None:
    config = ScheduleConfig(warmup_steps=2, decay_start_step=0, decay_steps=2, decay_power=1)
    assert factors(config, 5) == [0.5, 1, 0.5, 0, 0]


@pytest.mark.parametrize(
    ("name", "value"),
    [("warmup_steps", -1), ("decay_steps", -1), ("decay_start_step", -1), ("decay_power", 0.0), ("floor", 1.5)],
)
def test_impossible_values_are_refused_by_name(name: str, value: float) -> None:
    with pytest.raises(ConfigError, match=f"schedule.{name} is {value}"):
        ScheduleConfig(**{name: value})
