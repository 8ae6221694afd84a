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
from zmon.hooks import works
from zmon.hooks.describe import DESCRIBERS, Call, size
from zmon.hooks.replacing import replace, unseen
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
    return (_groups.get(id(group)) or _group(group))[0]


def _group(group: Any) -> tuple[int, str]:
    timeline = probe.timeline()
    assert timeline is not None
    named = group or dist.group.WORLD
    name = named.group_name
    _groups[id(group)] = known = timeline.group(name, named.size()), name
    return known


def _watched(original: Callable[..., Any], op: int, describe: Callable[..., Call]) -> Callable[..., Any]:
    @functools.wraps(original)
    def collective(*args: Any, **kwargs: Any) -> Any:
        timeline = probe.timeline()
        if timeline is None or torch.compiler.is_compiling():
            return original(*args, **kwargs)  # traced, not run: the compiler replaces it with its own
        begin = monotonic_ns()
        entered = is_async = False
        try:
            sent, received, group, is_async = describe(*args, **kwargs)
            if group is not dist.GroupMember.NON_GROUP_MEMBER:  # else torch does nothing either
                entered = enter(timeline, op, group, sent, received)
        except Exception:
            timeline.ledger.dropped += 1  # torch itself will say what is wrong with the call
        timeline.spent(begin)
        if not entered:
            return original(*args, **kwargs)
        if not is_async:
            try:
                return original(*args, **kwargs)
            finally:
                leave(timeline)
        began = timeline.issue()
        try:
            work = original(*args, **kwargs)
        finally:
            leave(timeline, flying=True)
        if work is not None:
            works.watch(work, op, group_number(group), sent + received, began)
        return work

    collective.__zmon__ = True  # type: ignore[attr-defined]
    return collective


def enter(timeline: RankTimeline, op: int, group: Any, sent: int, received: int) -> bool:
    """A collective begins, in any thread. False: it is part of another and must not be left."""
    number, name = _groups.get(id(group)) or _group(group)
    entered = timeline.enter_op(op, number, sent, received) or timeline.enter_elsewhere(op, number, sent, received)
    if entered:
        issued[name] += 1
    return entered


def leave(timeline: RankTimeline, flying: bool = False) -> None:
    """The call is over; `flying`: the collective is not."""
    begin = monotonic_ns()
    try:
        timeline.leave_op(flying=flying)
        timeline.spent(begin)
    except Exception:
        timeline.ledger.dropped += 1


def forget_groups() -> None:
    """The process groups are others now."""
    _groups.clear()
    issued.clear()
