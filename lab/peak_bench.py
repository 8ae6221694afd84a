"""Measures the processors of this host: square matrix products in each dtype, and the triad of STREAM.

The rate of a dtype is that of the fastest product, 2 n³ operations for n × n matrices. The memory bandwidth is that of
the fastest triad a = b + s·c (McCalpin, *Memory Bandwidth and Machine Balance in Current High Performance Computers*,
1995): two arrays are read and one is written. Together they must be larger than the caches.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import torch

from zmon.scaling.peaks import DevicePeaks

DTYPES = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_MIN_REPEATS = 3  # so that the fastest call is chosen from several, even if one call takes all the time


def measure(seconds: float, size: int, elements: int) -> DevicePeaks:
    """Return the peaks of all processors that this process may use.

    Each dtype and the triad take about `seconds`. `size` is n of the matrices, `elements` the length of an array of
    float64.
    """
    torch.set_num_threads(len(os.sched_getaffinity(0)))  # OMP_NUM_THREADS=1 of a launcher is for one rank of many
    flops = {}
    for name, dtype in DTYPES.items():
        a, b = (torch.rand(size, size).to(dtype) for _ in range(2))
        out = torch.empty_like(a)
        flops[name] = 2 * size**3 / _fastest(lambda a=a, b=b, out=out: torch.mm(a, b, out=out), seconds)  # type: ignore[misc]
    first, second, result = (torch.ones(elements, dtype=torch.float64) for _ in range(3))
    triad = _fastest(lambda: torch.add(first, second, alpha=3.0, out=result), seconds)
    bandwidth = 3 * elements * first.element_size() / triad
    return DevicePeaks(flops, bandwidth, f"measured by zmon bench-peak with {torch.get_num_threads()} threads")


def _fastest(function: Callable[[], object], seconds: float) -> float:
    """Return the shortest duration of a call, over calls that take `seconds` together."""
    function()  # the first call starts threads and chooses a kernel
    durations: list[float] = []
    while len(durations) < _MIN_REPEATS or sum(durations) < seconds:
        started_at = time.perf_counter()
        function()
        durations.append(time.perf_counter() - started_at)
    return min(durations)
