"""Measures the device time of each part of a step, with events on its stream that are read some steps later.

A host clock around asynchronous work only measures how fast work is submitted. So every change of phase and every wait
for a collective records an event on the current stream (CUDA C++ Programming Guide, Events). The times of a step are
read at a boundary after the device has passed its last event. Nothing waits for the device: unfinished steps stay in a
queue. If the queue grows too long, its oldest step is written without times and counted as dropped. A step with an
event that fails is dropped at once, so that the steps after it do not wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

from zmon.box import layout

# Boundaries in the queue. The host is rarely further ahead, because the launch queue holds about a thousand kernels.
_MAX_QUEUED = 64
_NS_PER_MS = 1_000_000

Event: TypeAlias = Any  # torch.cuda.Event, of which record(), query() and elapsed_time(end) in milliseconds are used


class TimedBoundary(NamedTuple):
    """A boundary that is ready to be written; if `dropped` is set, its times are unknown."""

    kind: int
    image: bytes  # the boundary when it was closed; its times are not those of the device
    times: list[tuple[int, int]]  # by part of the step, as an index into the times of the boundary: nanoseconds
    duration: int  # nanoseconds
    dropped: bool


class _Mark(NamedTuple):
    """The end of one part of a step on the device."""

    part: int  # the part that ends here, as an index into the times of the boundary
    event: Event
    issued: Event | None  # recorded when the collective was issued; None if that was just before
    in_flight: bool  # the collective is not done yet


class _QueuedBoundary(NamedTuple):
    """A boundary that the device may not have passed yet."""

    kind: int
    image: bytes
    marks: list[_Mark]
    start: Event | None  # None if there are no marks
    used_events: list[Event]  # can be reused once this boundary leaves the queue


class DeviceTime:
    """The marks of the current step, and the steps that the device has not finished.

    `make_event` creates an event with timing. `recordable` returns False while a CUDA graph is captured: an event
    recorded then would become part of the graph.
    """

    def __init__(self, make_event: Callable[[], Event], recordable: Callable[[], bool]) -> None:
        self._make_event, self._recordable = make_event, recordable
        self._free_events: list[Event] = []
        self._queue: deque[_QueuedBoundary] = deque()
        self._marks: list[_Mark] = []
        self._start = self.mark()

    def end(self, part: int, issued: Event | None = None, in_flight: bool = False) -> None:
        """Mark the moment on the device at which this part of the step ends and the next part begins."""
        if (event := self.mark()) is not None:
            self._marks.append(_Mark(part, event, issued, in_flight))

    def mark(self) -> Event | None:
        """Record an event for this moment; return None if that is not possible."""
        try:
            return self._event() if self._recordable() else None
        except RuntimeError:  # the device failed; the job itself will report that
            return None

    def close(self, kind: int, image: bytes) -> None:
        """Queue a boundary: the end of a step, or a change of activity.

        At a change of activity the marks are discarded, because their times belong to no step.
        """
        marks, self._marks = self._marks, []
        if kind == layout.STEP and marks and self._start is not None:
            used_events = [self._start, *_events(marks)]
            used_events.remove(marks[-1].event)  # it starts the next step
            self._queue.append(_QueuedBoundary(kind, image, marks, self._start, used_events))
            self._start = marks[-1].event
        else:
            used_events = _events(marks)
            if (start := self.mark()) is not None:
                used_events += [] if self._start is None else [self._start]
                self._start = start
            self._queue.append(_QueuedBoundary(kind, image, [], None, used_events))

    def timed_boundaries(self, leaving: bool = False) -> Iterator[TimedBoundary]:
        """Yield and remove, in order, the boundaries that the device has passed.

        A boundary that it has not passed is yielded as dropped if its times will never be known, if too many boundaries
        are queued, or if the rank is leaving. While a CUDA graph is captured, nothing is yielded: a query of an event
        would break the capture (CUDA Runtime API, cudaStreamBeginCapture, cudaStreamCaptureModeGlobal).
        """
        while self._queue and self._may_query():
            kind, image, marks, start, used_events = self._queue[0]
            failed = False
            try:
                done = not marks or marks[-1].event.query()
                times = list(_times(start, marks)) if done and start is not None else []
            except RuntimeError:
                done, times, failed = False, [], not _may_be_timed_later([*used_events, marks[-1].event])
            if not (done or failed or leaving) and len(self._queue) <= _MAX_QUEUED:
                return
            self._queue.popleft()
            if not failed:
                self._free_events += used_events  # they can be recorded again even before the device has passed them
            duration = sum(ns for part, ns in times if part < layout.INFLIGHT)
            yield TimedBoundary(kind, image, times, duration, not done)

    def _may_query(self) -> bool:
        try:
            return self._recordable()
        except RuntimeError:  # the device failed; a query of its events raises
            return True

    def _event(self) -> Event:
        try:
            event = self._free_events.pop()  # another thread that issues a collective may take the last one
        except IndexError:
            event = self._make_event()
        event.record()
        return event


def _events(marks: list[_Mark]) -> list[Event]:
    return [event for mark in marks for event in (mark.event, mark.issued) if event is not None]


def _may_be_timed_later(events: list[Event]) -> bool:
    """Return True if no event has failed and the device has not passed all of them yet."""
    try:
        return not all(event.query() for event in events)
    except RuntimeError:
        return False


def _times(start: Event, marks: list[_Mark]) -> Iterator[tuple[int, int]]:
    """Yield each part and its nanoseconds. Raises RuntimeError if an event failed or the device has not passed it."""
    for mark in marks:
        elapsed = start.elapsed_time(mark.event)
        yield mark.part, int(max(elapsed, 0) * _NS_PER_MS)
        if mark.part >= layout.EXPOSED and not mark.in_flight:
            in_flight = (mark.issued or start).elapsed_time(mark.event)
            yield mark.part - layout.EXPOSED + layout.INFLIGHT, int(max(in_flight, 0) * _NS_PER_MS)
        # A negative time means that the event is on a stream that is ahead. It counts as 0, and `start` stays, so no
        # time counts twice.
        if elapsed >= 0:
            start = mark.event
