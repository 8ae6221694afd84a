"""Selects recent steps of a box: all of them, or a sample of the same steps on every rank.

Boundaries are read backwards from the newest one, so that only the requested ones are decoded.
"""

from __future__ import annotations

from collections.abc import Callable

from zmon.box import layout
from zmon.box.ring import Row
from zmon.box.steps import StepEnds

ReadBoundary = Callable[[int], Row | None]  # returns a boundary by its number; None if damaged or overwritten


def ended(read: ReadBoundary, latest: int, after_ns: int, until_ns: int, max_steps: int) -> list[StepEnds]:
    """Return the last steps that ended in that time, oldest first, at most `max_steps` of them."""
    steps: list[StepEnds] = []
    boundary = read(latest)
    for number in range(latest, _oldest(latest), -1):
        previous = read(number - 1)
        if boundary is not None:
            time = boundary[layout.TIME]
            if time <= after_ns or len(steps) == max_steps:
                break
            if previous is not None and boundary[layout.KIND] == layout.STEP and time <= until_ns:
                steps.append(StepEnds(previous, boundary))
        boundary = previous
    return steps[::-1]


def spread(read: ReadBoundary, latest: int, after_ns: int, until_ns: int, about: int) -> list[StepEnds]:
    """Return a sample of about `about` of the steps that ended in that time, or all if there are fewer; oldest first.

    The sampled step numbers are multiples of a power of two, so ranks that choose different powers share the multiples
    of the larger one. Each has the mean of all steps since the previous sampled one.
    """
    stride, steps = _stride(read, latest, after_ns, about), []
    number = latest
    while number > _oldest(latest):
        end = read(number)
        if end is not None and end[layout.TIME] <= after_ns:
            break
        if end is None or end[layout.KIND] != layout.STEP:
            number -= 1
        elif remainder := end[layout.STEP_NUMBER] % stride:
            number -= remainder  # each step has at least one boundary, so this does not skip the sampled step
        else:
            previous = read(number - 1)
            if previous is not None and end[layout.TIME] <= until_ns:
                steps.append(StepEnds(previous, end, _mean_from(read(number - stride), end, stride)))
            number -= stride
    return steps[::-1]


def _mean_from(first: Row | None, end: Row, stride: int) -> Row | None:
    """Return the boundary after which the steps between two sampled ones begin.

    Returns None if there are no steps between them, or anything other than steps. A job can write its
    box, so the count of steps may stand still while their numbers rise.
    """
    if stride == 1 or first is None or first[layout.KIND] != layout.STEP:
        return None
    follows = first[layout.STEP_NUMBER] == end[layout.STEP_NUMBER] - stride
    return first if follows and end[layout.STEPS] > first[layout.STEPS] else None


def _stride(read: ReadBoundary, latest: int, after_ns: int, about: int) -> int:
    """Return the power of two that leaves about `about` of the steps since then."""
    stride = 1
    while (number := latest - about * stride) > _oldest(latest):
        boundary = read(number)
        if boundary is None or boundary[layout.TIME] <= after_ns:
            break
        stride *= 2
    return stride


def _oldest(latest: int) -> int:
    return max(latest - layout.RING_CAPACITY + 1, 0)
