"""Counts the collectives that the reducer of a DDP module issues from C++, and their bytes.

These collectives are hidden: no wrapper of torch.distributed is called. Their number is the change of the group's own
sequence number, which C++ advances too, minus the calls that the wrappers counted. The bytes follow from the
parameters, because a synced backward reduces each gradient once (torch/csrc/distributed/c10d/reducer.cpp). If the
number differs from the one that follows from the buckets, the collectives are counted and their bytes are unknown.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch

from zmon import probe
from zmon.probe.hooks.collectives import group_number, issued_calls
from zmon.probe.hooks.describe import size
from zmon.probe.rank import OP_NUMBER, RankTimeline

ALL_REDUCE, ALL_GATHER, BROADCAST = (OP_NUMBER[op] for op in ("all_reduce", "all_gather", "broadcast"))
INT_BYTES, LONG_BYTES = 4, 8  # of the integers that the reducer sends
_HALF_BYTES = 2  # of an element of a compressed gradient

Function = Callable[..., Any]
reducers: list[Reducer] = []  # the reducers of all DDP modules that exist
_groups: dict[str, Group] = {}  # the process groups of the reducers, by name
_grouped_reducers: list[Reducer] = []  # the reducers when `_groups` was made


class Reducer:
    """The collectives that one DDP module issues in a synced backward; does not keep the module alive."""

    def __init__(self, module: Any, parameters: Sequence[torch.Tensor], is_sparse: bool) -> None:
        remove = reducers.remove  # at its exit, Python may have cleared the names of this file when the module ends
        self.module = weakref.ref(module, lambda _: remove(self))
        self.num_parameters = len(parameters)
        self.num_elements = sum(parameter.numel() for parameter in parameters)
        self.is_sparse = is_sparse  # then the bytes depend on the batch
        self.num_bytes = 0 if is_sparse else size(parameters)  # of all gradients on the wire; a hook may compress them
        self.num_buckets: int | None = None  # None: unknown
        self.num_early = 0  # buckets that an earlier backward of the same forward reduced
        self.is_described = False  # `describe` has read the buckets
        self.is_rebuilt = False
        self.owes_sizes = False  # a rebuild also broadcasts the size of each bucket: counted by the next `describe`
        self.has_delayed = False  # the first backward of a static graph has ended, which reduces all at its end
        # When the gradients of the first two parameters were ready, in ns since the forward; read by `note_backward`.
        self._ready_times = [0] * min(2, len(parameters))
        for reducer in reducers:  # now that there are several, `note_backward` is used, and compares with this call
            if (other := reducer.module()) is not None:
                reducer.note_backward(other)

    def describe(self, module: Any) -> None:
        """Read the number of buckets and the hook, a slow call; rebuilt buckets are known at the next forward."""
        data = module._get_ddp_logging_data()
        sizes = data.get("rebuilt_bucket_sizes" if self.is_rebuilt else "bucket_sizes")
        hook = data.get("comm_hook") or "ALLREDUCE"
        num_buckets = len(sizes.split(",")) if sizes else None
        self.num_buckets = num_buckets
        if hook.endswith("FP16_COMPRESS"):
            self.num_bytes = _HALF_BYTES * self.num_elements
        elif not hook.endswith("ALLREDUCE"):
            self.num_buckets = self.num_bytes = 0  # the collectives in the job's own hook are wrapped
        self.is_described = num_buckets is not None
        if num_buckets is not None and self.owes_sizes:
            self.owes_sizes = False
            count_broadcast(module.process_group, num_buckets * INT_BYTES, 0)

    def delays(self, module: Any) -> bool:
        """Return True if this backward issues all reductions at its end."""
        # Not getattr: for a missing attribute, a module searches all its members and builds a long error message.
        return not self.has_delayed and bool(module.__dict__.get("_static_graph_delay_allreduce_enqueued"))

    def sends_bitmap(self, module: Any) -> bool:
        """Return True if the ranks also exchange which parameters this backward used."""
        return self.delays(module) if module.static_graph else bool(module.find_unused_parameters)

    def has_final_buckets(self) -> bool:
        """Return True if the buckets are rebuilt, and the rebuild is counted."""
        return self.is_rebuilt and self.is_described and not self.owes_sizes

    def note_backward(self, module: Any) -> bool:
        """Return True if the module has reduced since the last call. torch makes a list as long as the parameters.

        The first parameters are the last to be ready, so a backward that raised has not reached them. The time of one
        alone does not do: in a real job it was the same in two backwards in a row, once in about 6,000.
        """
        previous, self._ready_times = self._ready_times, module.reducer.get_backward_stats()[:2]
        return self._ready_times != previous or self.delays(module)


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
        self.issued_before = issued_calls[self.name]

    def num_issued(self) -> int:
        """Return the number of collectives of the group since `begin`."""
        return int(self.group._get_sequence_number_for_group() - self.sequence_before)

    def num_hidden(self) -> int:
        """Return the number of collectives since `begin` that C++ issued, which no wrapper has counted."""
        return self.num_issued() - issued_calls[self.name] + self.issued_before

    def has_to_wait(self) -> bool:
        """Return True if a reducer of this group has collectives to wait for."""
        if self.num_issued() > 0:
            return True
        modules = ((reducer, reducer.module()) for reducer in self.reducers)
        return any(module and reducer.delays(module) and not module._comm_hooks for reducer, module in modules)

    def num_bytes(self) -> int:
        """Return the bytes that the reducers send and receive in a synced backward, as far as known."""
        if len(self.reducers) == 1:
            return 2 * self.reducers[0].num_bytes
        return 2 * sum(reducer.num_bytes for reducer in self.reducers)

    def count(self, timeline: RankTimeline, bitmaps: bool = True) -> None:
        """Count the reductions that C++ issued in a backward; count their bytes only if their number is as expected.

        `bitmaps`: the ranks may have exchanged in this backward which parameters it used.
        """
        hidden = self.num_hidden()
        are_several = len(self.reducers) > 1
        expected = num_bytes = early = 0
        is_known = True
        for reducer in self.reducers:
            module = reducer.module()
            if module is None or (are_several and not reducer.note_backward(module)) or hidden <= 0:
                continue
            has_bitmap = bitmaps and reducer.sends_bitmap(module)
            reducer.has_delayed |= reducer.delays(module)
            early += reducer.num_early
            is_known &= not reducer.is_sparse
            # num_buckets is None only in the backward after a rebuild; that one is assumed to be complete.
            expected += hidden if reducer.num_buckets is None else reducer.num_buckets + has_bitmap
            num_bytes += reducer.num_bytes + has_bitmap * INT_BYTES * reducer.num_parameters
            reducer.num_early = 0
        if hidden <= 0:
            return
        if early + hidden < expected and not are_several:  # the next backward sends the rest
            self.reducers[0].num_early, num_bytes = early + hidden, 0
        elif not is_known or early + hidden > expected:
            num_bytes = 0
            report_loss("the bytes of some gradients are unknown: sparse, compressed by the job, or reduced in parts")
        timeline.count_op(ALL_REDUCE, self.number, num_bytes, num_bytes, hidden)
        issued_calls[self.name] += hidden


class Wait:
    """The context of a wait in collectives that C++ issues; the group that it returns counts them afterwards."""

    def __init__(self, timeline: RankTimeline, op: int, group: Any, num_bytes: int) -> None:
        self.timeline, self.op, self.group, self.num_bytes = timeline, op, group, num_bytes

    def __enter__(self) -> Group | None:
        group: Group | None = try_call(Group, self.group)
        self.entered = group and try_call(self.timeline.wait_op, self.op, group.number, self.num_bytes)
        return group

    def __exit__(self, *_: object) -> None:
        if self.entered:
            self.timeline.leave_op()


def groups_of_reducers() -> list[Group]:
    """Return the process groups of all reducers, and begin to count on each."""
    if _grouped_reducers != reducers:
        _grouped_reducers[:] = reducers
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
    _grouped_reducers.clear()
    _groups.clear()


def reducer_of(owner: Any) -> Reducer | None:
    """Return the reducer of a DDP module, given the module or its C++ reducer."""
    for reducer in tuple(reducers):
        module = reducer.module()
        if module is owner or (module is not None and module.reducer is owner):
            return reducer
    return None


def count_hidden(op: int, group: Any, sent: int, received: int, count: int) -> None:
    """Count collectives that C++ issued; a `Group` that counts at this time does not count them again."""
    timeline = probe.current
    if timeline is not None:
        timeline.count_op(op, group_number(group), sent, received, count)
        issued_calls[group.group_name] += count


def count_broadcast(group: Any, num_bytes: int, count: int, src: int = 0) -> None:
    """Count broadcasts that C++ issued, in which the rank `src` of the group sends these bytes to each other rank."""
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
