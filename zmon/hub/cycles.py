"""Search for reference cycles seldom: a pass of the hub makes many objects, and hardly any of them are in a cycle.

Python starts a search once 700 more objects were made than freed. That took a quarter of the time of decoding. While a
pass replaces the reports of all agents, it has about 20 objects more per rank than between passes. With 16,384 ranks a
search in each pass took a quarter of the time to decode and judge.
"""

from __future__ import annotations

import gc

_LEAST_OBJECTS = 100_000
_OBJECTS_PER_RANK = 32


def search_seldom(num_ranks: int = 0) -> None:
    """Let this process search for cycles no more often than a hub of so many ranks needs."""
    objects = max(_LEAST_OBJECTS, _OBJECTS_PER_RANK * num_ranks)
    if objects > gc.get_threshold()[0]:
        gc.set_threshold(objects)
