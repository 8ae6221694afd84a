"""The share of the last seconds for which each rank could run and waited for a processor.

Source: /proc/<pid>/schedstat, whose second number is the time spent waiting on a run queue, in nanoseconds (Linux
Documentation/scheduler/sched-stats.rst). That file counts the main thread only, which is what is needed: it usually
runs the training loop, so its waits delay the step by as much. The waits of all threads together would be several
times as long where a pool waits at once, and those of loader threads delay no step.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Container
from pathlib import Path

from zmon.agent.sources.reading import text_of
from zmon.process import ProcessId

# Programs that are bound to no core move to a free one within about a second. What lasts longer is contention.
WINDOW_SECONDS = 6.0


class RunDelays:
    """The waits of the ranks of this host."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seconds: dict[ProcessId, deque[tuple[float, float]]] = {}  # time of the look, seconds waited so far

    def retain(self, processes: Container[ProcessId]) -> None:
        """Forget the processes that are not among these."""
        self._seconds = {process: looks for process, looks in self._seconds.items() if process in processes}

    def ratio_of(self, process: ProcessId, folder: Path) -> float | None:
        """Return the share of the last seconds; None if the kernel does not count it, or while too few are known.

        `folder`: the folder of the process, opened.
        """
        seconds, now = run_delay_seconds(text_of(folder / "schedstat")), self._clock()
        looks = self._seconds.setdefault(process, deque())
        if seconds is None:
            looks.clear()
            return None
        looks.append((now, seconds))
        while len(looks) > 1 and now - looks[1][0] >= WINDOW_SECONDS:
            looks.popleft()
        then, before = looks[0]
        return min((seconds - before) / (now - then), 1.0) if now - then >= WINDOW_SECONDS else None


def run_delay_seconds(schedstat: str) -> float | None:
    """Return the time for which a thread waited for a processor; None if the kernel does not count it.

    Without CONFIG_SCHED_INFO there is no such file; a kernel that has it switched off writes `0 0 0`. The third number
    is how often the thread got a processor, which is not 0 for one that has run.
    """
    numbers = schedstat.split()
    if len(numbers) < 3 or not all(map(str.isdecimal, numbers)) or not int(numbers[2]):
        return None
    return int(numbers[1]) * 1e-9
