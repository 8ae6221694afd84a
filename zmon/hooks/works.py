"""How long an asynchronous collective is in flight, and how long the rank waits for it.

What torch returned is handed on as it is: `Work.wait` and `Future.wait` themselves are watched, and what they wait for
is known by identity, held weakly. In flight is from issue until the wait for it is over; one that nobody waits for
counts with its bytes only.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from time import monotonic_ns
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from zmon import probe
from zmon.hooks.replacing import unseen
from zmon.probe.rank import Issued


class _Flight(NamedTuple):
    op: int
    group: int
    num_bytes: int
    issued: Issued
    handles: list[weakref.ref[Any]]  # the work, and its futures: whichever is waited for first


_flights: dict[int, _Flight] = {}  # by id of what is waited for


def install() -> None:
    """Watch the ways to wait, once."""
    if hasattr(dist.Work.wait, "__zmon__"):
        return
    dist.Work.wait = unseen(watched_wait(dist.Work.wait))
    dist.Work.get_future = unseen(_future(dist.Work.get_future))
    torch._C.Future.wait = unseen(watched_wait(torch._C.Future.wait))


@probe.guarded
def watch(handle: Any, op: int, group: int, num_bytes: int, issued: Issued) -> None:
    """Whoever waits for this waits for that collective."""
    _add(handle, _Flight(op, group, num_bytes, issued, []))


def _add(handle: Any, flight: _Flight) -> None:
    key = id(handle)
    flight.handles.append(weakref.ref(handle, lambda _: _flights.pop(key, None)))
    _flights[key] = flight


def _landed(awaited: Any) -> _Flight | None:
    """What is waited for, which nobody need wait for again."""
    flight = _flights.pop(id(awaited), None)
    if flight is not None:
        for handle in flight.handles:
            _flights.pop(id(handle()), None)
        flight.handles.clear()
    return flight


def watched_wait(original: Callable[..., Any]) -> Callable[..., Any]:
    """A way to wait for something, its first argument."""

    @functools.wraps(original)
    def wait(awaited: Any, *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return original(awaited, *args, **kwargs)
        begin = monotonic_ns()
        flight = _landed(awaited)
        timeline = probe.timeline()
        if flight is None or timeline is None or not timeline.wait_op(flight.op, flight.group, flight.num_bytes):
            return original(awaited, *args, **kwargs)
        timeline.spent(begin)
        try:
            return original(awaited, *args, **kwargs)
        finally:
            begin = monotonic_ns()
            timeline.leave_op(flight.issued)
            timeline.spent(begin)

    wait.__zmon__ = True  # type: ignore[attr-defined]
    return wait


def _future(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def get_future(work: Any) -> Any:
        future = original(work)
        if (flight := _flights.get(id(work))) is not None:
            probe.guarded(_add)(future, flight)
        return future

    return get_future
