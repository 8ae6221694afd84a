"""Arithmetic of time intervals: union, difference, and the time of parts that overlap. Pure; seconds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Interval = tuple[float, float]  # begin, end


def partition(parts: Iterable[Sequence[Interval]]) -> list[float]:
    """Return the seconds of each part. Where parts overlap, the earlier part counts, so that no moment counts twice."""
    covered: list[Interval] = []
    seconds = []
    for intervals in parts:
        before = total(covered)
        covered = union([*covered, *intervals])
        seconds.append(total(covered) - before)
    return seconds


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """Return the intervals in order, with those that touch or overlap as one."""
    merged: list[Interval] = []
    for begin, end in sorted(intervals):
        if merged and begin <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        elif end > begin:
            merged.append((begin, end))
    return merged


def subtract(intervals: Iterable[Interval], removed: Iterable[Interval]) -> list[Interval]:
    """Return the parts of `intervals` that no interval of `removed` covers."""
    holes = union(removed)
    rest: list[Interval] = []
    index = 0  # of the first hole that may lie in the interval
    for begin, end in union(intervals):
        while index < len(holes) and holes[index][1] <= begin:
            index += 1
        rest_begin = begin
        for hole_begin, hole_end in holes[index:]:
            if hole_begin >= end:
                break
            if hole_begin > rest_begin:
                rest.append((rest_begin, hole_begin))
            rest_begin = max(rest_begin, hole_end)
        if rest_begin < end:
            rest.append((rest_begin, end))
    return rest


def total(intervals: Iterable[Interval]) -> float:
    """Return the sum of the lengths of intervals that do not overlap."""
    return sum(end - begin for begin, end in intervals)


def within(intervals: Iterable[Interval], begin: float, end: float) -> list[Interval]:
    """Return the parts of the intervals between `begin` and `end`."""
    cut = [(max(first, begin), min(last, end)) for first, last in intervals]
    return [(first, last) for first, last in cut if last > first]
