"""Comparison of two runs of a job: what changed, by how much, and whether that is more than noise.

`source` reads the steps, `series` puts them into columns, `judge` separates changes from noise, `gauges` does so for
reported values such as the loss, and `gate` evaluates thresholds for a pipeline.
"""

from zmon.offline.compare.gate import Gate
from zmon.offline.compare.gauges import compare_gauges
from zmon.offline.compare.judge import Change, compare
from zmon.offline.compare.series import Series, series
from zmon.offline.compare.source import steps_of

__all__ = ["Change", "Gate", "Series", "compare", "compare_gauges", "series", "steps_of"]
