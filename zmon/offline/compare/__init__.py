"""Two runs of a job side by side: what changed, by how much, and is that more than chance?

`source` finds the steps, `series` puts them into columns, `judge` tells change from chance, `gauges` does so of the
loss, `gate` decides for a pipeline, `text` is what a person reads.
"""

from zmon.offline.compare.gate import Gate
from zmon.offline.compare.gauges import compare_gauges
from zmon.offline.compare.judge import Change, compare
from zmon.offline.compare.series import Series, series
from zmon.offline.compare.source import steps_of

__all__ = ["Change", "Gate", "Series", "compare", "compare_gauges", "series", "steps_of"]
