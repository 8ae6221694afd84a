"""How fast to learn at each step: a factor on every learning rate, up in a warm-up, then 1, then down.

    1 ┤      ┌──────────────┐
      │    ╱                  ╲
      │  ╱                      ╲___
    0 ┼──────┴──────────────┴────────── step
        warmup_steps   decay_start_step, and decay_steps on

Warm-up and decay are those of facebookresearch/dlrm: the first step learns at 1 ÷ warmup_steps, and the decay is a
polynomial of power 2. But between the two the rate is full, where there it stays at the last of the warm-up, and after
them it is the floor. Nothing is kept between steps, so a resumed run goes on where it was.
"""

import math
from dataclasses import dataclass

from trainer.errors import require


@dataclass(frozen=True)
class ScheduleConfig:
    warmup_steps: int = 0  # over which the rate rises evenly
    decay_start_step: int = 0  # steps at the full rate; the decay never begins before the warm-up has ended
    decay_steps: int = 0  # over which the rate falls; 0: it never does
    decay_power: float = 2.0  # of the polynomial; 1 falls evenly
    floor: float = 0.0  # what is left after the decay, as a part of the full rate

    def __post_init__(self) -> None:
        for name in ("warmup_steps", "decay_start_step", "decay_steps"):
            value = getattr(self, name)
            require(value >= 0, f"schedule.{name}", value, "0 or more")
        require(0 < self.decay_power < float("inf"), "schedule.decay_power", self.decay_power, "above 0")
        require(0 <= self.floor <= 1, "schedule.floor", self.floor, "between 0 and 1")


def rate_factor(config: ScheduleConfig, step: int) -> float:
    """What to multiply learning rates by in this step, counted from 0: between 0 and 1."""
    done = step + 1  # with this one
    if done < config.warmup_steps:
        return done / config.warmup_steps
    if not config.decay_steps:
        return 1.0
    decayed = done - max(config.decay_start_step, config.warmup_steps)
    left = min(max(1 - decayed / config.decay_steps, 0.0), 1.0)
    return max(math.pow(left, config.decay_power), config.floor)
