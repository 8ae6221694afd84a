"""The learning rate schedule: a factor on every learning rate, with a warm-up and a decay.

    1 ┤      ┌──────────────┐
      │    ╱                  ╲
      │  ╱                      ╲___
    0 ┼──────┴──────────────┴────────── step
        warmup_steps   decay_start_step, for decay_steps

Warm-up and decay are as in facebookresearch/dlrm: the first step has the factor 1 ÷ warmup_steps, and the decay is a
polynomial of power 2. Two things differ: between warm-up and decay the factor is 1 (in their code, the last value of
the warm-up), and after the decay it is `floor`. The schedule has no state, so a resumed run continues it.
"""

import math
from dataclasses import dataclass

from trainer.errors import require


@dataclass(frozen=True)
class ScheduleConfig:
    warmup_steps: int = 0  # steps in which the learning rate rises linearly
    decay_start_step: int = 0  # first step of the decay, or the end of the warm-up if that is later
    decay_steps: int = 0  # steps in which the learning rate falls; 0: it never falls
    decay_power: float = 2.0  # exponent of the polynomial decay; 1: linear
    floor: float = 0.0  # factor on the learning rate after the decay

    def __post_init__(self) -> None:
        for name in ("warmup_steps", "decay_start_step", "decay_steps"):
            value = getattr(self, name)
            require(value >= 0, f"schedule.{name}", value, "0 or more")
        require(0 < self.decay_power < float("inf"), "schedule.decay_power", self.decay_power, "above 0")
        require(0 <= self.floor <= 1, "schedule.floor", self.floor, "between 0 and 1")


def rate_factor(config: ScheduleConfig, step: int) -> float:
    """Return the factor on all learning rates, 0 to 1, for this step, counted from 0."""
    steps_done = step + 1  # includes this step
    if steps_done < config.warmup_steps:
        return steps_done / config.warmup_steps
    if not config.decay_steps:
        return 1.0
    decayed_steps = steps_done - max(config.decay_start_step, config.warmup_steps)
    remaining_share = min(max(1 - decayed_steps / config.decay_steps, 0.0), 1.0)  # of the decay
    return max(math.pow(remaining_share, config.decay_power), config.floor)
