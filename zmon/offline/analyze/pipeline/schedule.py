"""Replays the operations of one recorded step with other durations, in their recorded order.

An operation starts once the operations before it on its rank are done. Operations that overlap on a rank, such as a
send and a receive that were issued together, do not wait for each other. A collective, or a send and its receive,
starts on all its ranks at once, when the last of them is ready; the seconds before that were waiting and are no part of
its duration. The pauses between two operations of a rank are left out. Ranks, stages and microbatches need no rules of
their own: the order that was recorded has them. After J. Lin et al., Understanding Stragglers in Large Model Training
Using What-if Analysis, OSDI 2025.

Pure; all values in seconds. The times of all ranks must be of one clock.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

# An operation comes after another one if it starts at most this much before the other's end. Recorded ends and starts
# of operations in a row differ by up to a tenth of a millisecond in published traces.
_TOLERANCE_SECONDS = 5e-4
_ROUNDING_SECONDS = 1e-5  # times are recorded as 32-bit floats: at one minute they are multiples of 4 µs


class Operation(NamedTuple):
    """One operation of one rank. Operations with the same `group` start together; None: it waits for no other rank."""

    rank: int
    kind: str
    start: float
    end: float
    group: Hashable | None = None


class _Start(NamedTuple):
    """Operations that start together, and the operations that must have ended before; both are indices."""

    members: tuple[int, ...]
    before: tuple[int, ...]


class Schedule:
    """The order of the operations of one step, and the duration of each without waiting for other ranks."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        """Raise ValueError if an order is impossible, because two operations wait for each other."""
        self.operations = tuple(operations)
        before = _before(self.operations)
        groups: defaultdict[Hashable, list[int]] = defaultdict(list)
        for index, operation in enumerate(self.operations):
            groups[("alone", index) if operation.group is None else ("group", operation.group)].append(index)
        self._order = _ordered(list(groups.values()), before)
        self.seconds = [0.0] * len(self.operations)
        for members, _ in self._order:
            ready = max(self.operations[index].start for index in members)
            for index in members:
                self.seconds[index] = max(self.operations[index].end - ready, 0.0)

    def replay(self, seconds: Sequence[float]) -> float:
        """Return the duration of the step if the operations had these durations."""
        ends = [0.0] * len(seconds)
        for members, before in self._order:
            start = max((ends[index] for index in before), default=0.0)
            for index in members:
                ends[index] = start + seconds[index]
        return max(ends, default=0.0)


def _before(operations: Sequence[Operation]) -> list[list[int]]:
    """Return, for each operation, those that it follows on its rank directly, not through another one."""
    before: list[list[int]] = [[] for _ in operations]
    by_rank: defaultdict[int, list[int]] = defaultdict(list)
    for index, operation in enumerate(operations):
        by_rank[operation.rank].append(index)
    for indices in by_rank.values():
        latest: list[int] = []  # operations that a later one may follow directly
        for index in sorted(indices, key=lambda index: (operations[index].start, operations[index].end)):
            before[index] = [earlier for earlier in latest if _follows(operations[index], operations[earlier])]
            implied = {earliest for earlier in before[index] for earliest in before[earlier]}
            latest = [earlier for earlier in latest if earlier not in implied]
            latest.append(index)
    return before


def _follows(operation: Operation, earlier: Operation) -> bool:
    shorter = min(operation.end - operation.start, earlier.end - earlier.start)
    tolerance = max(min(_TOLERANCE_SECONDS, shorter / 2), _ROUNDING_SECONDS)
    return earlier.end <= operation.start + tolerance


def _ordered(groups: list[list[int]], before: list[list[int]]) -> list[_Start]:
    """Return the starts of the groups in an order in which each comes after all that it follows. Raises ValueError."""
    group_of = {index: number for number, members in enumerate(groups) for index in members}
    follows = [tuple({earlier for index in members for earlier in before[index]}) for members in groups]
    earlier_groups = {number: {group_of[index] for index in indices} for number, indices in enumerate(follows)}
    try:
        order = [*TopologicalSorter(earlier_groups).static_order()]
    except CycleError as error:
        _, cycle = error.args  # it ends with the group with which it begins
        raise ValueError(f"{len(cycle) - 1} operations wait for each other") from None
    return [_Start(tuple(groups[number]), follows[number]) for number in order]
