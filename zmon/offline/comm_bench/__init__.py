"""Benchmark of collectives: their duration by message size, and the bandwidth and latency fitted to it.

`measure` runs on each rank, `curve` fits bandwidth and latency, `file` reads and writes the result.
"""

from zmon.offline.comm_bench.curve import Measured, Timed, links
from zmon.offline.comm_bench.file import read, write

__all__ = ["Measured", "Timed", "links", "read", "write"]
