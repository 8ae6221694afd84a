"""Selects recent steps of a box: all of them, or a sample of the same steps on every rank.

Boundaries are read backwards from the newest one, so that only the requested ones are decoded.
"""

from __future__ import annotations

from collections.abc import Callable

from zmon.box import layout
from zmon.box.ring import Row
from zmon.box.steps import StepEnds

_64_BITS = (1 << 64) - 1

ReadBoundary = Callable[[int], Row | None]  # returns a boundary by its number; None if damaged or overwritten


def last_steps(read: ReadBoundary, latest: int, after_ns: int, until_ns: int, max_steps: int) -> list[StepEnds]:
    """Return the last steps that ended in that time, oldest first, at most `max_steps` of them.

    The time is after `after_ns` and up to `until_ns`, on the host's monotonic clock; `latest` is the newest boundary.
    """
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


def sample(read: ReadBoundary, latest: int, after_ns: int, until_ns: int, about: int) -> list[StepEnds]:
    """Return a sample of about `about` of the steps that ended in that time, or all if there are fewer; oldest first.

    The sample has one step of each block of `stride` steps, as `sampled_step` draws it. Each sampled step comes with
    the mean of all steps since the sampled step before it.
    """
    stride = _stride(read, latest, after_ns, about)
    steps: list[StepEnds] = []
    number = latest
    while number > _oldest(latest):
        end = read(number)
        if end is not None and end[layout.TIME] <= after_ns:
            break
        if end is None or end[layout.KIND] != layout.STEP:
            number -= 1
            continue
        step = end[layout.STEP_NUMBER]
        sampled = sampled_step(step, stride)
        earlier = sampled if sampled < step else sampled_step(step - step % stride - 1, stride)
        if step == sampled:
            previous = read(number - 1)
            if previous is not None and end[layout.TIME] <= until_ns:
                first = read(number - (step - earlier)) if stride > 1 else None
                steps.append(StepEnds(previous, end, _mean_from(first, end, earlier)))
        number -= step - earlier  # each step has at least one boundary, so this does not skip the sampled step
    return steps[::-1]


def sampled_step(step: int, stride: int) -> int:
    """Return the sampled step in the block of `stride` steps with this step; `stride` is a power of two.

    The number of the block decides which step is drawn, so it is the same step on every rank. A fixed place in the
    block would show only a part of a recurring pattern: if four ranks are slow in turn, always the same rank. Two
    neighbouring blocks make one block of twice the size, and its sampled step is that of one of the two. So ranks with
    different strides share the sampled steps of the larger stride.
    """
    block = step // stride
    while stride > 1:
        block = 2 * block + (_random_bits(block, stride) & 1)
        stride //= 2
    return block


def _random_bits(block: int, stride: int) -> int:
    """Return bits that look random: the finalizer of splitmix64 (Steele et al., OOPSLA 2014)."""
    bits = (block * 0x9E3779B97F4A7C15 + stride) & _64_BITS
    bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & _64_BITS
    bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & _64_BITS
    return bits ^ (bits >> 31)


def _mean_from(first: Row | None, end: Row, earlier: int) -> Row | None:
    """Return the boundary after which the steps since the sampled step `earlier` begin.

    Returns None if `earlier` is the previous step, or if there is anything other than steps in between. The job may
    write anything into its box, so the count of steps may stand still while their numbers increase.
    """
    if first is None or first[layout.KIND] != layout.STEP or end[layout.STEP_NUMBER] - earlier < 2:
        return None
    return first if first[layout.STEP_NUMBER] == earlier and end[layout.STEPS] > first[layout.STEPS] else None


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
