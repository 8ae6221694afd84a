"""Jobs that move and lose time: one rank is slow, the work is uneven, or the whole job is slower than it was. Pure.

Five detectors: `straggler`, `imbalance`, `slowdown`, `efficiency`, `input_bound`. `self_times` tells a slow rank from
bad luck (`chance`) and from more work (`work`), `step_cost` says what it costs, `hardware_reasons` and
`processor_waits` why. `exposed_time` is about slow links, `skew` about a rank with more work, `stages` about pipelines.
`jitter` and `uneven_steps` are about jobs in which a different rank is slow in each step. docs/slowness.md has all
cases.
"""

from zmon.detectors.slow.efficiency import EfficiencyLow
from zmon.detectors.slow.imbalance import Imbalance
from zmon.detectors.slow.input_bound import InputBound
from zmon.detectors.slow.slowdown import Slowdown
from zmon.detectors.slow.straggler import Straggler
from zmon.detectors.slow.uneven_steps import JITTER_CAUSES

__all__ = ["JITTER_CAUSES", "EfficiencyLow", "Imbalance", "InputBound", "Slowdown", "Straggler"]
