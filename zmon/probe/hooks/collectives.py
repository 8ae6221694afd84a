"""Which collective the rank waits in: every call of torch.distributed, wrapped.

Counts each op, the bytes of the tensors handed in and out, and the time the caller spends in it; for one issued with
`async_op=True` also the wait for it and the time in flight. isend and irecv are left alone, for batch_isend_irecv
compares the functions themselves: what they call on the process group is watched instead.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from time import monotonic_ns
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from zmon import probe
from zmon.box import layout
from zmon.probe.hooks import works
from zmon.probe.hooks.describe import DESCRIBERS, Call, size
from zmon.probe.hooks.replacing import replace, unseen
from zmon.probe.rank import OP_NUMBER, RankTimeline

# An old name that warns of its age and calls the new one, which counts.
_RENAMED = {"all_gather_into_tensor": "all_gather_single", "reduce_scatter_tensor": "reduce_scatter_single"}

issued: Counter[str] = Counter()  # by group: calls passed on, to be held against the group's own sequence number
_groups: dict[int, tuple[int, str]] = {}  # by identity, None being the default group: number in the box, and name


def install() -> None:
    """Wrap the collectives of torch.distributed, once."""
    if hasattr(dist.all_reduce, "__zmon__"):
        return
    wrappers = {}
    for name, (op, describe) in DESCRIBERS.items():
        if hasattr(distributed_c10d, name) and not hasattr(distributed_c10d, _RENAMED.get(name, "")):
            original = getattr(distributed_c10d, name)
            wrappers[original] = _watched(original, OP_NUMBER[op], describe)
    replace(wrappers)
    for name, (op, describe) in _POINT_TO_POINT.items():
        original = getattr(dist.ProcessGroup, name)
        setattr(dist.ProcessGroup, name, unseen(_watched(original, OP_NUMBER[op], describe)))
    works.install()


def _sending(group: Any, tensors: Any, *_: Any, **__: Any) -> Call:
    return size(tensors), 0, group, True


def _receiving(group: Any, tensors: Any, *_: Any, **__: Any) -> Call:
    return 0, size(tensors), group, True


_POINT_TO_POINT = {  # methods of the process group, which isend, irecv and batch_isend_irecv call
    "send": ("send", _sending),
    "recv": ("recv", _receiving),
    "recv_anysource": ("recv", _receiving),
}


def group_number(group: Any) -> int:
    """The number of a process group in the box of this rank."""
    known = _groups.get(id(group)) or _group(group)
    return known[0] if known else layout.NONE


def _group(group: Any) -> tuple[int, str] | None:
    """Its number and name; None where this rank is not in it."""
    timeline = probe.current
    if timeline is None or group is dist.GroupMember.NON_GROUP_MEMBER:
        return None
    named = group or dist.group.WORLD
    name = named.group_name
    _groups[id(group)] = known = timeline.group(name, named.size()), name
    return known


def _watched(original: Callable[..., Any], op: int, describe: Callable[..., Call]) -> Callable[..., Any]:
    # Few and flat calls: after a wait the caches are cold, and each Python function costs microseconds.
    is_compiling = torch.compiler.is_dynamo_compiling

    @functools.wraps(original)
    def collective(*args: Any, **kwargs: Any) -> Any:
        timeline = probe.current
        if timeline is None or is_compiling():
            return original(*args, **kwargs)  # traced, not run: the compiler replaces it with its own
        begin = monotonic_ns()
        entered, known = False, None
        try:
            sent, received, group, is_async = describe(*args, **kwargs)
            known = _groups.get(id(group)) or _group(group)
            if known:  # else the rank is not in the group, and torch does nothing either
                entered = timeline.enter_op(op, known[0], sent, received) or timeline.enter_elsewhere(
                    op, known[0], sent, received
                )
        except Exception:
            timeline.ledger.dropped += 1  # torch itself will say what is wrong with the call
        timeline.overhead_ns += monotonic_ns() - begin
        if not entered or known is None:
            return original(*args, **kwargs)
        issued[known[1]] += 1
        work = None
        try:
            work = original(*args, **kwargs)
        finally:
            end = monotonic_ns()
            timeline.leave_op(flying=is_async)
            if is_async and work is not None:
                issue = begin if timeline.device is None else timeline.device.mark()
                works.watch(work, op, known[0], sent + received, issue)
            timeline.overhead_ns += monotonic_ns() - end
        return work

    collective.__zmon__ = True  # type: ignore[attr-defined]
    return collective


def enter(timeline: RankTimeline, op: int, group: Any, sent: int, received: int) -> bool:
    """A collective begins, in any thread. False: it is part of another and must not be left."""
    known = _groups.get(id(group)) or _group(group)
    if not known:
        return False
    number, name = known
    entered = timeline.enter_op(op, number, sent, received) or timeline.enter_elsewhere(op, number, sent, received)
    if entered:
        issued[name] += 1
    return entered


def forget_groups() -> None:
    """The process groups are others now."""
    _groups.clear()
    issued.clear()
