"""Selects recent steps of a box: all of them, or a sample of the same steps on every rank.

Boundaries are read backwards from the newest one, so that only the requested ones are decoded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from zmon.box import layout
from zmon.box.boundary import Boundary, mean_measures, step_record
from zmon.schema.step import Measures, StepRecord

ReadBoundary = Callable[[int], Boundary | None]  # returns a boundary by its number; None if damaged or overwritten


def ended(read: ReadBoundary, latest: int, after_ns: int, until_ns: int, max_records: int) -> tuple[StepRecord, ...]:
    """Return the last records of steps that ended in that time, oldest first, at most `max_records` of them."""
    records: list[StepRecord] = []
    boundary = read(latest)
    for number in range(latest, _oldest(latest), -1):
        previous = read(number - 1)
        if boundary is not None:
            if boundary.time <= after_ns or len(records) == max_records:
                break
            if previous is not None and boundary.kind == layout.STEP and boundary.time <= until_ns:
                records.append(step_record(previous, boundary))
        boundary = previous
    return tuple(reversed(records))


def spread(read: ReadBoundary, latest: int, after_ns: int, until_ns: int, about: int) -> tuple[StepRecord, ...]:
    """Return a sample of about `about` of the steps that ended in that time, or all if there are fewer; oldest first.

    The sampled step numbers are multiples of a power of two, so ranks that choose different powers share the multiples
    of the larger one. Each record has the mean of all steps since the previous sampled one.
    """
    stride, records = _stride(read, latest, after_ns, about), []
    number = latest
    while number > _oldest(latest):
        end = read(number)
        if end is not None and end.time <= after_ns:
            break
        if end is None or end.kind != layout.STEP:
            number -= 1
        elif remainder := end.step % stride:
            number -= remainder  # each step has at least one boundary, so this does not skip the sampled step
        else:
            previous = read(number - 1)
            if previous is not None and end.time <= until_ns:
                records.append(replace(step_record(previous, end), mean=_mean(read(number - stride), end, stride)))
            number -= stride
    return tuple(reversed(records))


def _mean(first: Boundary | None, end: Boundary, stride: int) -> Measures | None:
    """Return the mean of the steps between two sampled ones.

    Returns None if there are no steps between them, or anything other than steps. A job can write its
    box, so the count of steps may stand still while their numbers rise.
    """
    if stride == 1 or first is None or first.kind != layout.STEP or first.step != end.step - stride:
        return None
    return mean_measures(first, end) if end.steps > first.steps else None


def _stride(read: ReadBoundary, latest: int, after_ns: int, about: int) -> int:
    """Return the power of two that leaves about `about` of the steps since then."""
    stride = 1
    while (number := latest - about * stride) > _oldest(latest):
        boundary = read(number)
        if boundary is None or boundary.time <= after_ns:
            break
        stride *= 2
    return stride


def _oldest(latest: int) -> int:
    return max(latest - layout.RING_CAPACITY + 1, 0)
