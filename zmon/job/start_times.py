"""The times that earlier launches of each job took to start, from which the lease of initialization is learned.

A start is the longest time without a step boundary until training has a lease of its own: initialization, or one of the
first steps, which connect and compile. Pure: the agent keeps it in memory, so a new agent learns anew.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

MAX_JOBS = 256  # names of jobs; the one that started longest ago is forgotten
MAX_LAUNCHES = 8  # launches of one name


class StartTimes:
    """The start times of the last launches, by name of the job."""

    def __init__(self) -> None:
        self._launches: OrderedDict[Hashable, OrderedDict[object, float]] = OrderedDict()

    def add(self, name: Hashable, launch: object, seconds: float) -> None:
        """Add the start of one rank; the slowest rank counts for its launch."""
        launches = self._launches.setdefault(name, OrderedDict())
        self._launches.move_to_end(name)
        launches[launch] = max(seconds, launches.get(launch, 0.0))
        if len(launches) > MAX_LAUNCHES:
            launches.popitem(last=False)
        if len(self._launches) > MAX_JOBS:
            self._launches.popitem(last=False)

    def earlier(self, name: Hashable, launch: object) -> tuple[float, ...]:
        """Return the start times of the other launches of that name."""
        return tuple(seconds for other, seconds in self._launches.get(name, {}).items() if other != launch)
