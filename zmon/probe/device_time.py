"""How long the device took for each part of a step: events on its stream, read a step later.

A host clock around asynchronous work measures how fast work is handed over. Here every change of phase and every
wait for a collective records an event on the current stream (CUDA C++ Programming Guide, Events); once the device has
passed the last one of a step, its times are read. Nothing waits for the device: steps it has not finished stay in
a queue, and a queue that grows too long lets the oldest go without times, counted as dropped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

from zmon.box import layout

_MAX_STEPS_BEHIND = 64  # the host cannot run further ahead: the launch queue holds about a thousand kernels
_NS_PER_MS = 1_000_000


class Event(Protocol):
    """What is used of torch.cuda.Event."""

    def record(self) -> None:
        """Mark this moment on the current stream."""

    def query(self) -> bool:
        """Whether the device has passed it."""

    def elapsed_time(self, end: Event, /) -> float:
        """Milliseconds from this one to `end`."""


class Closed(NamedTuple):
    """A boundary whose times are known, or will never be."""

    head: tuple[int, ...]
    rest: tuple[float, ...]
    counts: list[int]
    times: list[tuple[int, int]]  # where in the boundary's times, nanoseconds
    duration: int
    dropped: bool


class _Mark(NamedTuple):
    slot: int  # what ends here
    event: Event
    issued: Event | None  # when the collective was issued, where that was not just before
    flying: bool  # the collective is not over


class _Waiting(NamedTuple):
    head: tuple[int, ...]
    rest: tuple[float, ...]
    counts: list[int]
    marks: list[_Mark]
    start: Event | None  # None where there are no marks
    spent: list[Event]  # of no more use once the device has come so far


class DeviceTime:
    """The marks of the step in progress and the steps the device has not finished.

    `make_event` makes an event with timing; `recordable` says whether one may be recorded now (not while a graph is
    being captured, where an event would become part of the graph).
    """

    def __init__(self, make_event: Callable[[], Event], recordable: Callable[[], bool]) -> None:
        self._make_event, self._recordable = make_event, recordable
        self._free: list[Event] = []
        self._waiting: deque[_Waiting] = deque()
        self._marks: list[_Mark] = []
        self._start = self.mark()

    def end(self, slot: int, issued: Event | None = None, flying: bool = False) -> None:
        """What belongs to this place of the boundary's times ends here on the device; the next thing begins."""
        if (event := self.mark()) is not None:
            self._marks.append(_Mark(slot, event, issued, flying))

    def mark(self) -> Event | None:
        """This moment on the device; None where none can be taken."""
        try:
            return self._event() if self._recordable() else None
        except RuntimeError:  # a device that failed: the job will say so
            return None

    def close(self, head: tuple[int, ...], rest: tuple[float, ...], counts: list[int]) -> None:
        """A boundary: of a step, or a turn to another activity, whose times belong to no step."""
        marks, self._marks = self._marks, []
        if head[0] == layout.STEP and marks and self._start is not None:
            spent = [self._start, *_events(marks)]
            spent.remove(marks[-1].event)  # it starts the next step
            self._waiting.append(_Waiting(head, rest, counts, marks, self._start, spent))
            self._start = marks[-1].event
        else:
            spent = _events(marks)
            if (start := self.mark()) is not None:
                spent += [] if self._start is None else [self._start]
                self._start = start
            self._waiting.append(_Waiting(head, rest, counts, [], None, spent))

    def finished(self, leaving: bool = False) -> Iterator[Closed]:
        """Boundaries in order, as far as the device has come; all of them when the rank leaves."""
        while self._waiting:
            head, rest, counts, marks, start, spent = self._waiting[0]
            try:
                done = not marks or marks[-1].event.query()
                times = list(_times(start, marks)) if done and start is not None else []
            except RuntimeError:
                done, times = False, []
            if not done and not leaving and len(self._waiting) <= _MAX_STEPS_BEHIND:
                return
            self._waiting.popleft()
            self._free += spent  # recorded anew, even where the device has not passed them
            yield Closed(head, rest, counts, times, sum(ns for slot, ns in times if slot < layout.INFLIGHT), not done)

    def _event(self) -> Event:
        try:
            event = self._free.pop()  # in any thread that issues a collective
        except IndexError:
            event = self._make_event()
        event.record()
        return event


def _events(marks: list[_Mark]) -> list[Event]:
    return [event for mark in marks for event in (mark.event, mark.issued) if event is not None]


def _times(start: Event, marks: list[_Mark]) -> Iterator[tuple[int, int]]:
    for mark in marks:
        taken = start.elapsed_time(mark.event)
        yield mark.slot, int(max(taken, 0) * _NS_PER_MS)
        if mark.slot >= layout.EXPOSED and not mark.flying:
            in_flight = (mark.issued or start).elapsed_time(mark.event)
            yield mark.slot - layout.EXPOSED + layout.INFLIGHT, int(max(in_flight, 0) * _NS_PER_MS)
        if taken >= 0:  # else it was recorded on a stream that is ahead: nothing counts twice or backwards
            start = mark.event
