"""Wraps the collectives of torch.distributed, to count them and to measure how long the rank waits in them.

For each op, the wrappers count the calls, the bytes of input and output tensors, and the time the caller spends in it.
If the op was issued with `async_op=True`, the wait for it and the time in flight are measured as well. isend and irecv
are not wrapped, because batch_isend_irecv compares the functions themselves. The methods of the process group that they
call are wrapped instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from time import monotonic_ns
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from zmon import probe
from zmon.box import layout
from zmon.probe.edge import fronts
from zmon.probe.hooks import works
from zmon.probe.hooks.describe import DESCRIBERS, PARAMETERS, Call, size
from zmon.probe.hooks.replacing import replace, wrapper_of
from zmon.probe.rank import OP_NUMBER, RankTimeline

# Deprecated names that call the new one. Only the new one is wrapped, so that a call counts once.
_RENAMED = {"all_gather_into_tensor": "all_gather_single", "reduce_scatter_tensor": "reduce_scatter_single"}

issued_calls: Counter[str] = Counter()  # counted calls by group, to compare with the group's own sequence number
_groups: dict[int, tuple[int, str]] = {}  # number in the box and name, by id of the group (None: default group)
fronts.connect(groups=_groups, issued_calls=issued_calls)


def install() -> None:
    """Wrap the collectives of torch.distributed, once."""
    if hasattr(dist.all_reduce, "__zmon__"):
        return
    wrappers = {}
    for name, (op, describe) in DESCRIBERS.items():
        if hasattr(distributed_c10d, name) and not hasattr(distributed_c10d, _RENAMED.get(name, "")):
            original = getattr(distributed_c10d, name)
            wrappers[original] = _wrap_collective(original, OP_NUMBER[op], describe)
    replace(wrappers)
    for name, (op, describe) in _POINT_TO_POINT.items():
        original = getattr(dist.ProcessGroup, name)
        setattr(dist.ProcessGroup, name, _wrap_collective(original, OP_NUMBER[op], describe))
    works.install()


def _describe_send(group: Any, tensors: Any, *_: Any, **__: Any) -> Call:
    return size(tensors), 0, group, True


def _describe_recv(group: Any, tensors: Any, *_: Any, **__: Any) -> Call:
    return 0, size(tensors), group, True


_POINT_TO_POINT = {  # methods of the process group, which isend, irecv and batch_isend_irecv call
    "send": ("send", _describe_send),
    "recv": ("recv", _describe_recv),
    "recv_anysource": ("recv", _describe_recv),
}


def group_number(group: Any) -> int:
    """Return the number of a process group in the box of this rank."""
    number, _ = _groups.get(id(group)) or _number_group(group) or (layout.NONE, "")
    return number


def _number_group(group: Any) -> tuple[int, str] | None:
    """Give a process group its number. Return its number and name, or None if this rank is not in it."""
    timeline = probe.current
    if timeline is None or group is dist.GroupMember.NON_GROUP_MEMBER:
        return None
    process_group = group or dist.group.WORLD
    name = process_group.group_name
    _groups[id(group)] = number_and_name = timeline.group(name, process_group.size()), name
    return number_and_name


def _wrap_collective(original: Callable[..., Any], op: int, describe: Callable[..., Call]) -> Callable[..., Any]:
    # Few function calls: after a wait the caches are cold, and each Python call costs microseconds.
    is_compiling = torch.compiler.is_dynamo_compiling

    @wrapper_of(original)
    def collective(*args: Any, **kwargs: Any) -> Any:
        timeline = probe.current
        if timeline is None or is_compiling():
            return original(*args, **kwargs)  # traced and not run: the compiler replaces it by its own collective
        begin = monotonic_ns()
        entered, number, name = False, layout.NONE, ""
        try:
            sent, received, group, is_async = describe(*args, **kwargs)
            is_async = bool(is_async)  # here, where it may raise
            numbered = _groups.get(id(group)) or _number_group(group)
            if numbered:  # else the rank is not in the group, and torch does nothing either
                number, name = numbered
                entered = timeline.enter_op(op, number, sent, received) or timeline.enter_op_elsewhere(
                    op, number, sent, received
                )
        except Exception:
            timeline.ledger.dropped += 1  # exported; if the call is wrong, torch itself raises the error
        timeline.overhead_ns += monotonic_ns() - begin
        if not entered:
            return original(*args, **kwargs)
        issued_calls[name] += 1
        work = None
        try:
            work = original(*args, **kwargs)
        finally:
            end = monotonic_ns()
            timeline.leave_op(None, is_async)
            if is_async and work is not None:
                issue = begin if timeline.device is None else timeline.device.mark()
                works.watch(work, op, number, sent + received, issue)
            timeline.overhead_ns += monotonic_ns() - end
        return work

    if describe not in PARAMETERS:
        return collective
    return fronts.front_of_collective(collective, original, op, describe, *PARAMETERS[describe])


def enter(timeline: RankTimeline, op: int, group: Any, sent: int, received: int) -> bool:
    """Enter a collective, in any thread; return False if it is part of another and must not be left."""
    numbered = _groups.get(id(group)) or _number_group(group)
    if not numbered:
        return False
    number, name = numbered
    entered = timeline.enter_op(op, number, sent, received) or timeline.enter_op_elsewhere(op, number, sent, received)
    if entered:
        issued_calls[name] += 1
    return entered


def forget_groups() -> None:
    """Forget all process groups, because they have changed."""
    _groups.clear()
    issued_calls.clear()
