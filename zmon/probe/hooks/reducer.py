"""What the reducer of a DDP module sends from C++: how often, how many bytes, and in which of them it waits.

How many collectives: the group's own sequence number (0.2 µs), which C++ advances too, less what the wrappers of
torch.distributed passed on. How many bytes: a synced backward reduces each gradient once, so the parameters say
(torch/csrc/distributed/c10d/reducer.cpp). Where the two do not agree the number counts and the bytes are unknown.
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
INT, LONG, HALF = 4, 8, 2  # bytes of the numbers that the reducer sends beside the gradients, and of compressed ones

Function = Callable[..., Any]
reducers: list[Reducer] = []  # of the modules that live
_groups: dict[str, Group] = {}  # by name, those of _groups_of
_groups_of: list[Reducer] = []


class Reducer:
    """What the reducer of one DDP module sends in a synced backward. Does not keep the module alive."""

    def __init__(self, module: Any, parameters: Sequence[torch.Tensor], sparse: bool) -> None:
        self.module = weakref.ref(module, lambda _: reducers.remove(self))
        self.num_parameters = len(parameters)
        self.num_elements = sum(parameter.numel() for parameter in parameters)
        self.full_bytes = None if sparse else size(parameters)
        self.num_bytes = self.full_bytes  # as they are sent: a hook may compress them
        self.num_buckets: int | None = None
        self.num_early = 0  # buckets that an earlier backward of the same forward has reduced
        self.asked = False
        self.rebuilt = False
        self.owes_rebuild = False  # how many bytes the rebuild broadcast is known one forward later
        self.delayed = False  # a static graph reduces all at the end of its first backward
        self.stamp = 0
        for reducer in reducers:  # from now on there are several: has each of them reduced since now?
            if (other := reducer.module()) is not None:
                reducer.synced(other)

    def ask(self, module: Any) -> None:
        """Number of buckets and hook, in 60 µs. Buckets that were rebuilt are known from the next forward on."""
        data = module._get_ddp_logging_data()
        sizes = data.get("rebuilt_bucket_sizes" if self.rebuilt else "bucket_sizes")
        hook = data.get("comm_hook") or "ALLREDUCE"
        num_buckets = len(sizes.split(",")) if sizes else None
        self.num_buckets = num_buckets
        if hook.endswith("FP16_COMPRESS"):
            self.num_bytes = HALF * self.num_elements
        elif not hook.endswith("ALLREDUCE"):
            self.num_buckets = self.num_bytes = 0  # the job's own hook: what it calls is wrapped
        self.asked = num_buckets is not None
        if num_buckets is not None and self.owes_rebuild:
            self.owes_rebuild = False
            count_broadcast(module.process_group, num_buckets * INT, 0)

    def delays(self, module: Any) -> bool:
        """Whether this backward issues all reductions at its end."""
        # Not getattr: what a module lacks it looks for everywhere, and says so at length.
        return not self.delayed and bool(module.__dict__.get("_static_graph_delay_allreduce_enqueued"))

    def sends_bitmap(self, module: Any) -> bool:
        """Whether the ranks also tell each other which parameters this backward used."""
        return self.delays(module) if module.static_graph else bool(module.find_unused_parameters)

    def synced(self, module: Any) -> bool:
        """Whether it reduced since this was last asked; makes a list as long as the parameters."""
        before, self.stamp = self.stamp, module.reducer.get_backward_stats()[0]
        return self.stamp != before or self.delays(module)


class Group:
    """What C++ issues on a process group from `begin` on."""

    def __init__(self, group: Any) -> None:
        self.group = group
        self.name = group.group_name
        self.number = group_number(group)
        self.reducers: list[Reducer] = []
        self.begin()

    def begin(self) -> None:
        self.before = self.group._get_sequence_number_for_group()
        self.issued_before = issued[self.name]

    def num_issued(self) -> int:
        return int(self.group._get_sequence_number_for_group() - self.before)

    def num_hidden(self) -> int:
        return self.num_issued() - issued[self.name] + self.issued_before

    def waits(self) -> bool:
        """Whether a reducer has something to wait for."""
        if self.num_issued() > 0:
            return True
        modules = ((reducer, reducer.module()) for reducer in self.reducers)
        return any(module and reducer.delays(module) and not module._comm_hooks for reducer, module in modules)

    def num_bytes(self) -> int:
        """What the reducers send and receive in a synced backward, as far as it is known."""
        if len(self.reducers) == 1:
            return 2 * (self.reducers[0].num_bytes or 0)
        return 2 * sum(reducer.num_bytes or 0 for reducer in self.reducers)

    def count(self, timeline: RankTimeline, bitmaps: bool = True) -> None:
        """Count what came from C++: its number always, its bytes if it is what the reducers must have sent."""
        hidden = self.num_hidden()
        several, last = len(self.reducers) > 1, None
        expected = num_bytes = early = 0
        known = True
        for reducer in self.reducers:
            module = reducer.module()
            if module is None or (several and not reducer.synced(module)) or hidden <= 0:
                continue
            last = reducer
            bitmap = bitmaps and reducer.sends_bitmap(module)
            reducer.delayed |= reducer.delays(module)
            early += reducer.num_early
            known &= reducer.full_bytes is not None
            # None only in the backward after a rebuild: it is taken to be whole
            expected += hidden if reducer.num_buckets is None else reducer.num_buckets + bitmap
            num_bytes += (reducer.num_bytes or 0) + bitmap * INT * reducer.num_parameters
            reducer.num_early = 0
        if hidden <= 0:
            return
        if early + hidden < expected and last is not None and not several:
            last.num_early, num_bytes = early + hidden, 0
        elif not known or early + hidden > expected:
            num_bytes = 0
            lost("bytes of some gradients are unknown: sparse, compressed by the job, or reduced in parts")
        timeline.count_op(ALL_REDUCE, self.number, num_bytes, num_bytes, hidden)
        issued[self.name] += hidden


class Wait:
    """`with Wait(…) as group:` the rank waits in collectives that C++ issues; they are counted after it."""

    def __init__(self, timeline: RankTimeline, op: int, group: Any, num_bytes: int) -> None:
        self.timeline, self.op, self.group, self.num_bytes = timeline, op, group, num_bytes

    def __enter__(self) -> Group | None:
        watched: Group | None = tried(Group, self.group)
        self.entered = watched and tried(wait_in, self.timeline, self.op, self.group, self.num_bytes)
        return watched

    def __exit__(self, *_: object) -> None:
        if self.entered:
            self.timeline.leave_op()


def groups_of_reducers() -> list[Group]:
    """The process groups on which reducers live, each from now on."""
    if _groups_of != reducers:
        _groups_of[:] = reducers
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
    """The process groups are others now."""
    _groups_of.clear()
    _groups.clear()


def reducer_of(owner: Any) -> tuple[Reducer, Any] | None:
    """Of a DDP module, or of its C++ reducer."""
    for reducer in tuple(reducers):
        module = reducer.module()
        if module is owner or (module is not None and module.reducer is owner):
            return reducer, module
    return None


def wait_in(timeline: RankTimeline, op: int, group: Any, num_bytes: int) -> bool:
    return timeline.wait_op(op, group_number(group), num_bytes)


def count_hidden(op: int, group: Any, sent: int, received: int, count: int) -> None:
    """Count collectives that C++ issued, and no group that is watched meanwhile counts them again."""
    timeline = probe.current
    if timeline is not None:
        timeline.count_op(op, group_number(group), sent, received, count)
        issued[group.group_name] += count


def count_broadcast(group: Any, num_bytes: int, count: int, src: int = 0) -> None:
    mine = group.rank() == src
    count_hidden(BROADCAST, group, num_bytes if mine else 0, 0 if mine else num_bytes, count)


def lost(line: str) -> None:
    timeline = probe.current
    if timeline is not None:
        timeline.ledger.dropped += 1
    probe.complain(line)


def tried(note: Function, *args: Any) -> Any:
    try:
        return note(*args)
    except Exception as error:
        return lost(f"a collective of DistributedDataParallel is not known: {error!r}")
