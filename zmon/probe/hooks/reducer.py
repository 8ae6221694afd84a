"""Counts the collectives that the reducer of a DDP module issues from C++, and their bytes.

The number of collectives is the change of the group's own sequence number, which C++ advances too, minus the calls that
the wrappers of torch.distributed counted. The bytes follow from the parameters, because a synced backward reduces each
gradient once (torch/csrc/distributed/c10d/reducer.cpp). If the parameters explain another number of collectives, the
collectives are counted and their bytes are unknown.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch

from zmon import probe
from zmon.probe.hooks.collectives import group_number, issued
from zmon.probe.hooks.describe import size
from zmon.probe.rank import OP_NUMBER, RankTimeline

ALL_REDUCE, ALL_GATHER, BROADCAST = (OP_NUMBER[op] for op in ("all_reduce", "all_gather", "broadcast"))
INT, LONG, HALF = 4, 8, 2  # bytes: of the integers that the reducer sends, and of a compressed gradient

Function = Callable[..., Any]
reducers: list[Reducer] = []  # the reducers of all DDP modules that exist
_groups: dict[str, Group] = {}  # the process groups of the reducers in _grouped, by name
_grouped: list[Reducer] = []


class Reducer:
    """The collectives that one DDP module issues in a synced backward; does not keep the module alive."""

    def __init__(self, module: Any, parameters: Sequence[torch.Tensor], sparse: bool) -> None:
        self.module = weakref.ref(module, lambda _: reducers.remove(self))
        self.num_parameters = len(parameters)
        self.num_elements = sum(parameter.numel() for parameter in parameters)
        self.full_bytes = None if sparse else size(parameters)
        self.num_bytes = self.full_bytes  # bytes on the wire; a hook may compress gradients
        self.num_buckets: int | None = None
        self.num_early = 0  # buckets that an earlier backward of the same forward reduced
        self.described = False
        self.rebuilt = False
        self.owes_rebuild = False  # the bytes of the rebuild's broadcast are known one forward later
        self.delayed = False  # True after the first backward of a static graph, which reduces all at its end
        self.stamp = 0  # identifies the last backward that `has_reduced` read
        for reducer in reducers:  # now that there are several, `has_reduced` is used, and compares with this call
            if (other := reducer.module()) is not None:
                reducer.has_reduced(other)

    def describe(self, module: Any) -> None:
        """Read the number of buckets and the hook, a slow call; rebuilt buckets are known at the next forward."""
        data = module._get_ddp_logging_data()
        sizes = data.get("rebuilt_bucket_sizes" if self.rebuilt else "bucket_sizes")
        hook = data.get("comm_hook") or "ALLREDUCE"
        num_buckets = len(sizes.split(",")) if sizes else None
        self.num_buckets = num_buckets
        if hook.endswith("FP16_COMPRESS"):
            self.num_bytes = HALF * self.num_elements
        elif not hook.endswith("ALLREDUCE"):
            self.num_buckets = self.num_bytes = 0  # the collectives in the job's own hook are wrapped
        self.described = num_buckets is not None
        if num_buckets is not None and self.owes_rebuild:
            self.owes_rebuild = False
            count_broadcast(module.process_group, num_buckets * INT, 0)

    def delays(self, module: Any) -> bool:
        """Return True if this backward issues all reductions at its end."""
        # Not getattr: for a missing attribute, a module searches all its members and builds a long error message.
        return not self.delayed and bool(module.__dict__.get("_static_graph_delay_allreduce_enqueued"))

    def sends_bitmap(self, module: Any) -> bool:
        """Return True if the ranks also exchange which parameters this backward used."""
        return self.delays(module) if module.static_graph else bool(module.find_unused_parameters)

    def has_reduced(self, module: Any) -> bool:
        """Return True if the module has reduced since the last call. torch makes a list as long as the parameters."""
        previous, self.stamp = self.stamp, module.reducer.get_backward_stats()[0]
        return self.stamp != previous or self.delays(module)


class Group:
    """A process group, and the collectives that C++ has issued on it since `begin`."""

    def __init__(self, group: Any) -> None:
        self.group = group
        self.name = group.group_name
        self.number = group_number(group)
        self.reducers: list[Reducer] = []
        self.begin()

    def begin(self) -> None:
        """Begin to count."""
        self.sequence_before = self.group._get_sequence_number_for_group()
        self.issued_before = issued[self.name]

    def num_issued(self) -> int:
        """Return the number of collectives of the group since `begin`."""
        return int(self.group._get_sequence_number_for_group() - self.sequence_before)

    def num_hidden(self) -> int:
        """Return the number of collectives since `begin` that C++ issued, which no wrapper has counted."""
        return self.num_issued() - issued[self.name] + self.issued_before

    def has_to_wait(self) -> bool:
        """Return True if a reducer of this group has collectives to wait for."""
        if self.num_issued() > 0:
            return True
        modules = ((reducer, reducer.module()) for reducer in self.reducers)
        return any(module and reducer.delays(module) and not module._comm_hooks for reducer, module in modules)

    def num_bytes(self) -> int:
        """Return the bytes that the reducers send and receive in a synced backward, as far as known."""
        if len(self.reducers) == 1:
            return 2 * (self.reducers[0].num_bytes or 0)
        return 2 * sum(reducer.num_bytes or 0 for reducer in self.reducers)

    def count(self, timeline: RankTimeline, bitmaps: bool = True) -> None:
        """Count the collectives that C++ issued; count their bytes only if their number is as expected."""
        hidden = self.num_hidden()
        are_several, last = len(self.reducers) > 1, None
        expected = num_bytes = early = 0
        is_known = True
        for reducer in self.reducers:
            module = reducer.module()
            if module is None or (are_several and not reducer.has_reduced(module)) or hidden <= 0:
                continue
            last = reducer
            has_bitmap = bitmaps and reducer.sends_bitmap(module)
            reducer.delayed |= reducer.delays(module)
            early += reducer.num_early
            is_known &= reducer.full_bytes is not None
            # num_buckets is None only in the backward after a rebuild; that one is assumed to be complete.
            expected += hidden if reducer.num_buckets is None else reducer.num_buckets + has_bitmap
            num_bytes += (reducer.num_bytes or 0) + has_bitmap * INT * reducer.num_parameters
            reducer.num_early = 0
        if hidden <= 0:
            return
        if early + hidden < expected and last is not None and not are_several:  # the next backward sends the rest
            last.num_early, num_bytes = early + hidden, 0
        elif not is_known or early + hidden > expected:
            num_bytes = 0
            report_loss("the bytes of some gradients are unknown: sparse, compressed by the job, or reduced in parts")
        timeline.count_op(ALL_REDUCE, self.number, num_bytes, num_bytes, hidden)
        issued[self.name] += hidden


class Wait:
    """The context of a wait in collectives that C++ issues; they are counted after it from the group it returns."""

    def __init__(self, timeline: RankTimeline, op: int, group: Any, num_bytes: int) -> None:
        self.timeline, self.op, self.group, self.num_bytes = timeline, op, group, num_bytes

    def __enter__(self) -> Group | None:
        watched: Group | None = try_call(Group, self.group)
        self.entered = watched and try_call(
            lambda: self.timeline.wait_op(self.op, group_number(self.group), self.num_bytes)
        )
        return watched

    def __exit__(self, *_: object) -> None:
        if self.entered:
            self.timeline.leave_op()


def groups_of_reducers() -> list[Group]:
    """Return the process groups of all reducers, and begin to count on each."""
    if _grouped != reducers:
        _grouped[:] = reducers
        _groups.clear()
        for reducer in reducers:
            module = reducer.module()
            if module is not None:
                name = module.process_group.group_name
                if name not in _groups:
                    _groups[name] = Group(module.process_group)
                _groups[name].reducers.append(reducer)
    for group in _groups.values():
        group.begin()
    return list(_groups.values())


def forget_groups() -> None:
    """Forget all process groups, because they have changed."""
    _grouped.clear()
    _groups.clear()


def reducer_of(owner: Any) -> tuple[Reducer, Any] | None:
    """Return the reducer and the module of a DDP module or of its C++ reducer."""
    for reducer in tuple(reducers):
        module = reducer.module()
        if module is owner or (module is not None and module.reducer is owner):
            return reducer, module
    return None


def count_hidden(op: int, group: Any, sent: int, received: int, count: int) -> None:
    """Count collectives that C++ issued; a `Group` that counts at this time does not count them again."""
    timeline = probe.current
    if timeline is not None:
        timeline.count_op(op, group_number(group), sent, received, count)
        issued[group.group_name] += count


def count_broadcast(group: Any, num_bytes: int, count: int, src: int = 0) -> None:
    is_source = group.rank() == src
    count_hidden(BROADCAST, group, num_bytes if is_source else 0, 0 if is_source else num_bytes, count)


def report_loss(line: str) -> None:
    """Count a record that is lost, and print the reason once."""
    timeline = probe.current
    if timeline is not None:
        timeline.ledger.dropped += 1
    probe.complain(line)


def try_call(function: Function, *args: Any) -> Any:
    """Call the function; on failure report a loss and return None."""
    try:
        return function(*args)
    except Exception as error:
        return report_loss(f"cannot count a collective of DistributedDataParallel: {error!r}")
