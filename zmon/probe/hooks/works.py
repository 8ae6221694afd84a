"""Measures how long an asynchronous collective is in flight, and how long the rank waits for it.

The job gets the same objects from torch as without zmon. `Work.wait` and `Future.wait` are wrapped, and recognize an
awaited object by its id; zmon only holds weak references to it. A collective is in flight from its issue until the wait
for it is over. If the job never waits for it, only its count and its bytes are recorded.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from time import monotonic_ns
from typing import Any, TypeAlias

import torch
import torch.distributed as dist

from zmon import probe
from zmon.probe.edge import fronts
from zmon.probe.hooks.replacing import hide_frames, wrapper_of
from zmon.probe.rank import Issued

# Op, group, bytes, sequence, time of issue, and the objects that can be awaited for it: the work and its futures.
# A plain tuple, because each asynchronous collective makes one: a NamedTuple takes 0.3 µs longer (Xeon, November 2026).
_Flight: TypeAlias = "tuple[int, int, int, int, Issued, list[weakref.ref[Any]]]"

_flights: dict[int, _Flight] = {}  # the collectives in flight, by id of an object that can be awaited


def install() -> None:
    """Wrap the methods that wait, once."""
    if hasattr(dist.Work.wait, "__zmon__"):
        return
    fronts.connect(python_flights=_flights, python_watch=watch)
    dist.Work.wait = wrap_wait(dist.Work.wait)
    dist.Work.get_future = _wrap_get_future(dist.Work.get_future)
    torch._C.Future.wait = wrap_wait(torch._C.Future.wait)


def num_flights() -> int:
    """Return the number of collectives in flight that can be awaited."""
    return len({id(flight) for flight in _flights.values()}) + fronts.num_flights()


def watch(handle: Any, op: int, group: int, num_bytes: int, issued: Issued) -> None:
    """Register `handle`, so that a wait for it is recorded as a wait for this collective."""
    sequence = 0 if probe.current is None else probe.current.sequence(op, group)
    _add(handle, (op, group, num_bytes, sequence, issued, []))


def _add(handle: Any, flight: _Flight) -> None:
    """Let a wait for this object be a wait for the collective."""
    key = id(handle)
    pop = _flights.pop  # at its exit, Python may have cleared the names of this file when the handle ends
    *_, handles = flight
    try:
        handles.append(weakref.ref(handle, lambda _: pop(key, None)))
    except TypeError:  # a backend's own work type without weak references: its wait cannot be measured
        if probe.current is not None:
            probe.current.ledger.dropped += 1
        return
    _flights[key] = flight


def wrap_wait(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function that waits for its first argument."""
    is_compiling = torch.compiler.is_dynamo_compiling

    @wrapper_of(original)
    def wait(awaited: Any, *args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            return original(awaited, *args, **kwargs)
        begin = monotonic_ns()
        timeline, flight = probe.current, _flights.pop(id(awaited), None)
        if flight is None or timeline is None:
            return original(awaited, *args, **kwargs)
        op, group, num_bytes, sequence, issued, handles = flight
        for handle in handles:  # later waits for the same collective return at once
            _flights.pop(id(handle()), None)
        # `received` and `count` are 0: the collective was counted at its issue. The C edge is slower with keywords.
        entered = timeline.enter_op(op, group, num_bytes, 0, 0, sequence)
        timeline.overhead_ns += monotonic_ns() - begin
        if not entered:
            return original(awaited, *args, **kwargs)
        try:
            return original(awaited, *args, **kwargs)
        finally:
            begin = monotonic_ns()
            timeline.leave_op(issued)
            timeline.overhead_ns += monotonic_ns() - begin

    return fronts.front("wait", wait, original, _raiser())


def _raiser() -> Callable[..., Any]:
    """Return a function whose frame, named `wait`, is in the traceback of an error that a wait behind C raises."""

    def wait(error: BaseException) -> None:
        raise error

    return hide_frames(wait)


def _wrap_get_future(original: Callable[..., Any]) -> Callable[..., Any]:
    @wrapper_of(original)
    def get_future(work: Any) -> Any:
        future = original(work)
        if (flight := _flights.get(id(work))) is not None:
            _add(future, flight)
        return future

    return fronts.front("get_future", get_future, original)
