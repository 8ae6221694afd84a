"""The steps of the last moments: each of them, or some of them evenly, the same ones on every rank.

Read backwards from the newest boundary, so that what nobody asked for is not decoded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from zmon.box import layout
from zmon.box.boundary import Boundary, mean_measures, step_record
from zmon.schema.step import Measures, StepRecord

At = Callable[[int], Boundary | None]  # a boundary by its number; None: damaged, or overwritten


def ended(at: At, latest: int, after_ns: int, until_ns: int, most: int) -> tuple[StepRecord, ...]:
    """The last records whose step ended in that time, oldest first, `most` of them."""
    found: list[StepRecord] = []
    boundary = at(latest)
    for number in range(latest, _oldest(latest), -1):
        before = at(number - 1)
        if boundary is not None:
            if boundary.time <= after_ns or len(found) == most:
                break
            if before is not None and boundary.kind == layout.STEP and boundary.time <= until_ns:
                found.append(step_record(before, boundary))
        boundary = before
    return tuple(reversed(found))


def spread(at: At, latest: int, after_ns: int, until_ns: int, about: int) -> tuple[StepRecord, ...]:
    """Of the steps that ended in that time `about` so many, or all where there are fewer; oldest first.

    Their numbers divide by a power of two: ranks that choose different powers have the rarer steps in common. Each says
    what the steps since the one before it took on average.
    """
    every, found = _every(at, latest, after_ns, about), []
    number = latest
    while number > _oldest(latest):
        end = at(number)
        if end is not None and end.time <= after_ns:
            break
        if end is None or end.kind != layout.STEP:
            number -= 1
        elif past := end.step % every:
            number -= past  # a step has one boundary at least: this does not go too far
        else:
            before = at(number - 1)
            if before is not None and end.time <= until_ns:
                found.append(replace(step_record(before, end), mean=_mean(at(number - every), end, every)))
            number -= every
    return tuple(reversed(found))


def _mean(first: Boundary | None, end: Boundary, every: int) -> Measures | None:
    """Of the steps between two that are told; None where there is more between them than steps, or nothing."""
    if every == 1 or first is None or first.kind != layout.STEP or first.step != end.step - every:
        return None
    return mean_measures(first, end)


def _every(at: At, latest: int, after_ns: int, about: int) -> int:
    """The power of two that leaves about so many of the steps since then."""
    every = 1
    while (number := latest - about * every) > _oldest(latest):
        boundary = at(number)
        if boundary is None or boundary.time <= after_ns:
            break
        every *= 2
    return every


def _oldest(latest: int) -> int:
    return max(latest - layout.RING_CAPACITY + 1, 0)
