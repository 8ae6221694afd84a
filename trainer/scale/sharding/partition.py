"""Three ways to distribute indivisible loads over ranks, so that the longest time of a rank is short.

Each rank may have a load already, of tables that are placed. All numbers are whole. Ties go to the first load and the
lowest rank, so that every rank computes the same. None of the three is the best for all loads, so the planner takes the
best of their results.

Shapes: N loads, R ranks. Times are in picoseconds (`PER_SECOND` in cost.py), memory in bytes.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class IndivisibleLoads:
    """Loads to distribute, and what the ranks have already."""

    times: Numbers  # (N,)
    memory: Numbers  # (N,)
    placed_times: Numbers  # (R,) time of the loads that a rank has already
    room: Numbers  # (R,) memory that a rank has left


def greedy(loads: IndivisibleLoads) -> list[int]:
    """Return the rank of each load, the longest first, each to the rank with the least time that has room (LPT)."""
    return _distribute(loads, np.lexsort((-loads.memory, -loads.times)), _least_time_with_room)


def memory_balanced(loads: IndivisibleLoads) -> list[int]:
    """Return the rank of each load, the one with most memory first, each to the rank with most room."""
    return _distribute(loads, np.lexsort((-loads.times, -loads.memory)), _most_room)


def _distribute(loads: IndivisibleLoads, order: Numbers, rank_for: Callable[[Numbers, Numbers, int], int]) -> list[int]:
    """Return the rank of each load. `rank_for` chooses it, by the times and room of all ranks and the load's memory."""
    ranks, room, times = [0] * len(order), loads.room.copy(), loads.placed_times.copy()
    for load in order.tolist():
        rank = rank_for(times, room, loads.memory[load])
        ranks[load] = rank
        room[rank] -= loads.memory[load]
        times[rank] += loads.times[load]
    return ranks


def _least_time_with_room(times: Numbers, room: Numbers, memory: int) -> int:
    """Return the rank with the least time that has room for a load; if no rank has, the one with the most room."""
    fits = room >= memory
    if not fits.any():
        return int(room.argmax())
    return int(np.where(fits, times, np.iinfo(np.int64).max).argmin())


def _most_room(times: Numbers, room: Numbers, _: int) -> int:
    """Return the rank with the most room; of several, the one with the least time."""
    return int(np.lexsort((times, -room))[0])


class _Part(NamedTuple):
    """A part of a partial partition: loads that go to one rank."""

    time: int
    loads: list[int]
    rank: int | None  # None: any rank


def largest_differencing(loads: IndivisibleLoads) -> list[int]:
    """Return the rank of each load by k-way differencing (Karmarkar and Karp 1982); it does not look at memory.

    The two most uneven partial partitions are merged, long times with short ones, until one is left. Each has R parts.
    The parts of the first one have the placed times and the numbers of the ranks, so that each part of the result
    belongs to a rank. The others begin with one load.
    """
    num_ranks = len(loads.placed_times)
    partitions: dict[int, list[_Part]] = {}  # by number, parts by ascending time, the shortest at time 0
    heap: list[tuple[int, int]] = []  # (-difference of the longest and shortest part, number): most uneven first

    def push(number: int, parts: list[_Part]) -> None:
        parts.sort(key=lambda part: part.time)
        shortest, longest = parts[0].time, parts[-1].time
        partitions[number] = [part._replace(time=part.time - shortest) for part in parts]
        heapq.heappush(heap, (shortest - longest, number))

    push(0, [_Part(time, [], rank) for rank, time in enumerate(loads.placed_times.tolist())])
    for load, time in enumerate(loads.times.tolist()):
        push(load + 1, [_Part(0, [], None)] * (num_ranks - 1) + [_Part(time, [load], None)])
    while len(heap) > 1:
        (_, first), (_, second) = heapq.heappop(heap), heapq.heappop(heap)
        pairs = zip(partitions.pop(first), reversed(partitions.pop(second)), strict=True)  # long parts with short ones
        push(min(first, second), [_merge(part, other) for part, other in pairs])
    ranks = [0] * len(loads.times)
    for part in partitions[heap[0][1]]:
        assert part.rank is not None  # partition 0 is in every result
        for load in part.loads:
            ranks[load] = part.rank
    return ranks


def _merge(part: _Part, other: _Part) -> _Part:
    return _Part(part.time + other.time, part.loads + other.loads, other.rank if part.rank is None else part.rank)


PARTITIONERS: dict[str, Callable[[IndivisibleLoads], Sequence[int]]] = {
    function.__name__: function for function in (greedy, largest_differencing, memory_balanced)
}
