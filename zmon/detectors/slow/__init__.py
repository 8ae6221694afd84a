"""Jobs that move and lose time: one rank is slow, the work is uneven, or the whole job is slower than it was. Pure.

Five detectors: `straggler`, `imbalance`, `slowdown`, `efficiency`, `input_bound`. `self_times` with `chance` tells a
slow rank from bad luck, `step_cost` what it costs, `hardware_reasons` why. `jitter` and `uneven_steps` are about steps
that lose time to another rank each, `stages` about pipelines, `plan_text` about the trainer's plan.
"""

from zmon.detectors.slow.efficiency import EfficiencyLow
from zmon.detectors.slow.imbalance import Imbalance
from zmon.detectors.slow.input_bound import InputBound
from zmon.detectors.slow.slowdown import Slowdown
from zmon.detectors.slow.straggler import Straggler
from zmon.detectors.slow.uneven_steps import JITTER_CAUSES

__all__ = ["JITTER_CAUSES", "EfficiencyLow", "Imbalance", "InputBound", "Slowdown", "Straggler"]
