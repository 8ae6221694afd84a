"""Benchmark of a host's processors: the rate of matrix products by dtype, and the memory bandwidth.

`measure` needs torch. `file` reads and writes the peaks of a site, `zmon.scaling.peaks` uses them.
"""

from zmon.offline.peak_bench.file import read, write

__all__ = ["read", "write"]
