"""Three ways to distribute indivisible loads over ranks, so that the largest sum of a rank is small.

    greedy               the longest load first, to the rank with the least load (Graham 1969, LPT)
    largest_differencing merges the two most uneven partial partitions, large sums with small ones, until one is left
                         (Karmarkar and Karp 1982, for k parts)
    memory_balanced      the load with the most memory first, to the rank with the most room

Each rank may have a load already, of tables that are placed. All numbers are whole, and ties go to the first load and
the lowest rank, so that every rank computes the same. No way is the best one for all loads: the planner takes the best
result of the three.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Indivisible:
    """Indivisible loads (N,), and what the ranks (R,) have already."""

    sizes: Numbers  # (N,) the time of each load
    memory: Numbers  # (N,) its bytes
    placed: Numbers  # (R,) the time of the ranks so far
    room: Numbers  # (R,) the bytes that the ranks have left


def greedy(loads: Indivisible) -> list[int]:
    """Return the rank of each load, the longest load first, each to the rank with the least time that has room."""
    return _one_by_one(loads, np.lexsort((-loads.memory, -loads.sizes)), loads.placed.copy())


def memory_balanced(loads: Indivisible) -> list[int]:
    """Return the rank of each load, the one with most memory first, each to the rank with most room."""
    order = np.lexsort((-loads.sizes, -loads.memory))
    ranks, room, time = [0] * len(order), loads.room.copy(), loads.placed.copy()
    for load in order.tolist():
        rank = int(np.lexsort((time, -room))[0])
        ranks[load] = rank
        room[rank] -= loads.memory[load]
        time[rank] += loads.sizes[load]
    return ranks


def _one_by_one(loads: Indivisible, order: Numbers, time: Numbers) -> list[int]:
    ranks, room = [0] * len(order), loads.room.copy()
    for load in order.tolist():
        fits = room >= loads.memory[load]
        rank = int(np.where(fits, time, np.iinfo(np.int64).max).argmin()) if fits.any() else int(room.argmax())
        ranks[load] = rank
        room[rank] -= loads.memory[load]
        time[rank] += loads.sizes[load]
    return ranks


def largest_differencing(loads: Indivisible) -> list[int]:
    """Return the rank of each load by k-way differencing; it does not look at memory.

    A partial partition is R sums, each with its loads. The first one has the present time of each rank, with the number
    of the rank. So each part of the result belongs to a rank.
    """
    num_ranks = len(loads.placed)
    parts_of: dict[int, list[tuple[int, list[int], int]]] = {}  # (sum, loads, rank or -1), by ascending sum
    heap: list[tuple[int, int]] = []

    def push(number: int, parts: list[tuple[int, list[int], int]]) -> None:
        parts.sort(key=lambda part: part[0])
        least = parts[0][0]
        parts_of[number] = [(size - least, members, rank) for size, members, rank in parts]
        heapq.heappush(heap, (least - parts[-1][0], number))  # the most uneven one first

    push(0, [(size, [], rank) for rank, size in enumerate(loads.placed.tolist())])
    for number, size in enumerate(loads.sizes.tolist()):
        push(number + 1, [(0, [], -1)] * (num_ranks - 1) + [(size, [number], -1)])
    while len(heap) > 1:
        first, second = heapq.heappop(heap)[1], heapq.heappop(heap)[1]
        merged = [
            (size + other_size, members + other_members, max(rank, other_rank))
            for (size, members, rank), (other_size, other_members, other_rank) in zip(
                parts_of.pop(first), reversed(parts_of.pop(second)), strict=True
            )
        ]
        push(min(first, second), merged)
    ranks = [0] * len(loads.sizes)
    for _, members, rank in parts_of[heap[0][1]]:
        for member in members:
            ranks[member] = rank
    return ranks


PARTITIONERS: dict[str, Callable[[Indivisible], Sequence[int]]] = {
    function.__name__: function for function in (greedy, largest_differencing, memory_balanced)
}
