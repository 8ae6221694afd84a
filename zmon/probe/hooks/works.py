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
from typing import Any, TypeAlias

import torch
import torch.distributed as dist

from zmon import probe
from zmon.probe.hooks.replacing import unseen
from zmon.probe.rank import Issued

# op, group, bytes, sequence, when it was issued, and what is waited for: the work and its futures, the first to come
_Flight: TypeAlias = "tuple[int, int, int, int, Issued, list[weakref.ref[Any]]]"

_flights: dict[int, _Flight] = {}  # by id of what is waited for


def install() -> None:
    """Watch the ways to wait, once."""
    if hasattr(dist.Work.wait, "__zmon__"):
        return
    dist.Work.wait = unseen(watched_wait(dist.Work.wait))
    dist.Work.get_future = unseen(_future(dist.Work.get_future))
    torch._C.Future.wait = unseen(watched_wait(torch._C.Future.wait))


def watch(handle: Any, op: int, group: int, num_bytes: int, issued: Issued) -> None:
    """Whoever waits for this waits for that collective."""
    sequence = 0 if probe.current is None else probe.current.sequence(op, group)
    _add(handle, (op, group, num_bytes, sequence, issued, []))


def _add(handle: Any, flight: _Flight) -> None:
    key = id(handle)
    try:
        flight[5].append(weakref.ref(handle, lambda _: _flights.pop(key, None)))
    except TypeError:  # a backend's own kind of work that cannot be held weakly: the wait for it is not known
        if probe.current is not None:
            probe.current.ledger.dropped += 1
        return
    _flights[key] = flight


def watched_wait(original: Callable[..., Any]) -> Callable[..., Any]:
    """A way to wait for something, its first argument."""
    is_compiling = torch.compiler.is_dynamo_compiling

    @functools.wraps(original)
    def wait(awaited: Any, *args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            return original(awaited, *args, **kwargs)
        begin = monotonic_ns()
        timeline, flight = probe.current, _flights.pop(id(awaited), None)
        if flight is None or timeline is None:
            return original(awaited, *args, **kwargs)
        op, group, num_bytes, sequence, issued, handles = flight
        for handle in handles:  # nobody need wait for it again
            _flights.pop(id(handle()), None)
        waits = timeline.enter_op(op, group, num_bytes, 0, 0, sequence)
        timeline.overhead_ns += monotonic_ns() - begin
        if not waits:
            return original(awaited, *args, **kwargs)
        try:
            return original(awaited, *args, **kwargs)
        finally:
            begin = monotonic_ns()
            timeline.leave_op(issued)
            timeline.overhead_ns += monotonic_ns() - begin

    wait.__zmon__ = True  # type: ignore[attr-defined]
    return wait


def _future(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def get_future(work: Any) -> Any:
        future = original(work)
        if (flight := _flights.get(id(work))) is not None:
            _add(future, flight)
        return future

    return get_future
