"""Measures how long backward waits for the reductions of DistributedDataParallel; `reducer.py` counts what DDP sends.

The wait lasts from the last gradient computed to the end of backward. Callbacks run in the order in which they were
queued, so a callback that is queued when backward begins runs before the one in which the reducer waits
(torch/csrc/autograd/engine.cpp, GraphTask::exec_post_processing; reducer.cpp, Reducer::mark_variable_ready).

A communication hook is not used: it would need the interpreter lock for each bucket, and replace the job's own hook.
The reducer's statistics are too rare: after ten steps they are sampled in one step out of a hundred.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from time import monotonic_ns
from typing import Any

import torch
import torch.distributed as dist
from torch.autograd import Variable
from torch.nn.parallel import DistributedDataParallel

from zmon import probe
from zmon.probe.hooks import simple_reducer
from zmon.probe.hooks.describe import size
from zmon.probe.hooks.reducer import (
    ALL_GATHER,
    ALL_REDUCE,
    BROADCAST,
    INT_BYTES,
    LONG_BYTES,
    Function,
    Group,
    Reducer,
    Wait,
    count_broadcast,
    count_hidden,
    groups_of_reducers,
    reducer_of,
    reducers,
    report_loss,
    try_call,
)
from zmon.probe.hooks.replacing import wrapper_of
from zmon.probe.rank import RankTimeline

_groups: list[Group] = []  # the process groups of the backward that is running
_rebuild_wrapper: Function | None = None  # the wrapper of Reducer._rebuild_buckets


def install() -> None:
    """Wrap the functions that DDP looks up at each call; modules and gradients are not changed."""
    global _rebuild_wrapper
    if not hasattr(dist, "Reducer") or hasattr(DistributedDataParallel._ddp_init_helper, "__zmon__"):
        return
    for owner, name, watch in (
        (dist, "_broadcast_coalesced", _broadcast_coalesced),
        (dist, "_verify_params_across_processes", _verify_params),
        (dist.Reducer, "_rebuild_buckets", _rebuild_buckets),
        (DistributedDataParallel, "_ddp_init_helper", _make_reducer),
        (DistributedDataParallel, "_register_builtin_comm_hook", _register_hook),
        (DistributedDataParallel, "register_comm_hook", _register_hook),
        (DistributedDataParallel, "_match_all_reduce_for_bwd_pass", _match_buckets),
        (DistributedDataParallel, "_match_unused_params_allreduce", _match_bitmap),
    ):
        original = getattr(owner, name, None)  # an older torch may lack one; then its collectives are not counted
        if original is not None:
            setattr(owner, name, _wrap(original, watch))
    _rebuild_wrapper = dist.Reducer._rebuild_buckets


def _wrap(original: Function, watch: Function) -> Function:
    @wrapper_of(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        timeline = None if torch.compiler.is_compiling() else probe.current
        if timeline is None and watch is not _make_reducer:  # a module may be created before the rank attaches
            return original(*args, **kwargs)
        return watch(timeline, original, *args, **kwargs)

    return call


class _Backward:
    """One call of the autograd engine; activation checkpoints call the engine again while it runs."""

    def __init__(self, timeline: RankTimeline, roots: Sequence[Any]) -> None:
        self.timeline = timeline
        self.is_queued = self.is_waiting = False
        # The C edge counts for itself during a pass that it measures; then this call is one of a checkpoint.
        self.is_outermost = not _groups and not simple_reducer.is_measuring() and timeline.acts_for_rank()
        self.hooks: list[Any] = []
        compiled = sys.modules.get("torch._dynamo.compiled_autograd")
        if not getattr(compiled, "compiled_autograd_enabled", False):  # it would compile these hooks into the graph
            for root in roots:
                node = getattr(root, "grad_fn", None) or getattr(root, "node", None)
                if node is not None:
                    self.hooks.append(node.register_prehook(self._on_begin))
        if self.is_outermost:  # last: if a root cannot be read, no pass is open
            _groups.extend(groups_of_reducers())

    def _on_begin(self, _: Any) -> None:
        if not self.is_queued:
            self.is_queued = True
            Variable._execution_engine.queue_callback(self._on_computed)

    def _on_computed(self) -> None:
        """Enter the wait of the reducers; called when all gradients are computed."""
        begin = monotonic_ns()
        try:
            for group in _groups:
                if not self.is_waiting and group.has_to_wait():
                    self.is_waiting = self.timeline.wait_op(ALL_REDUCE, group.number, group.num_bytes())
        except Exception as error:
            report_loss(f"cannot measure the wait for gradients: {error!r}")
        self.timeline.overhead_ns += monotonic_ns() - begin

    def end(self) -> None:
        """Leave the wait, and count what the modules reduced; called once the engine has returned or raised."""
        for hook in self.hooks:
            hook.remove()
        if self.is_waiting:
            self.timeline.leave_op()
        if self.is_outermost:
            groups = _groups.copy()
            _groups.clear()
            for group in groups:
                group.count(self.timeline)


def wrap_engine(engine: Function) -> Function:
    """Return a wrapper of autograd's engine that counts what DDP reduces in each call."""
    # Few function calls, because the caches are cold after the forward pass.
    is_compiling = torch.compiler.is_dynamo_compiling

    @wrapper_of(engine)
    def run_backward(roots: Any, *args: Any, **kwargs: Any) -> Any:
        timeline = probe.current
        if timeline is None or not reducers or is_compiling():
            return engine(roots, *args, **kwargs)
        begin = monotonic_ns()
        backward = try_call(_Backward, timeline, roots)
        timeline.overhead_ns += monotonic_ns() - begin
        try:
            return engine(roots, *args, **kwargs)
        finally:
            begin = monotonic_ns()
            if backward is not None:
                try_call(backward.end)
            timeline.overhead_ns += monotonic_ns() - begin

    return run_backward


# Each of these has the signature of the function it wraps, after `timeline` and `original`.


def _make_reducer(_: Any, original: Function, module: Any, parameters: Any, are_sparse: Any, *args: Any) -> None:
    original(module, parameters, are_sparse, *args)
    try_call(_note_reducer, module, parameters, any(are_sparse))


def _note_reducer(module: Any, parameters: Any, is_sparse: bool) -> None:
    _watch_rebuilds()
    reducers.append(Reducer(module, parameters, is_sparse))


def _register_hook(timeline: RankTimeline, original: Function, module: Any, *args: Any, **kwargs: Any) -> None:
    original(module, *args, **kwargs)
    reducer = reducer_of(module)
    if reducer is not None:
        _watch_rebuilds()
        reducer.is_described = False


def _watch_rebuilds() -> None:
    """Examine each module again at its next forward pass, because the number of its collectives may change."""
    simple_reducer.withdraw()
    if _rebuild_wrapper is not None:
        dist.Reducer._rebuild_buckets = _rebuild_wrapper


def _rebuild_buckets(timeline: RankTimeline, original: Function, cpp_reducer: Any) -> Any:
    """Count the broadcast of a rebuild; the function is called at each forward and rebuilds once."""
    reducer = reducer_of(cpp_reducer)
    if reducer is None or (module := reducer.module()) is None:
        return original(cpp_reducer)
    if not reducer.is_described:
        try_call(reducer.describe, module)
    if reducer.is_rebuilt and module.__dict__.get("_has_rebuilt_buckets", True):
        try_call(simple_reducer.offer)
        if all(other.has_final_buckets() for other in reducers):
            dist.Reducer._rebuild_buckets = original  # a module rebuilds once, so this function has nothing more to do
        return original(cpp_reducer)
    num_bytes = (reducer.num_parameters + 1) * INT_BYTES
    with Wait(timeline, BROADCAST, module.process_group, num_bytes) as group:
        rebuilt = original(cpp_reducer)
    if rebuilt and group is not None:
        reducer.num_buckets, reducer.is_described = None, False
        reducer.is_rebuilt = reducer.owes_sizes = True
        try_call(lambda: count_broadcast(module.process_group, num_bytes, group.num_hidden()))
    return rebuilt


def _broadcast_coalesced(
    timeline: RankTimeline, original: Function, process_group: Any, tensors: Any, buffer_size: int, src: int = 0
) -> None:
    """Count the broadcast of buffers at each forward, and of the whole module at construction."""
    num_bytes = size(tensors)
    with Wait(timeline, BROADCAST, process_group, num_bytes) as group:
        original(process_group, tensors, buffer_size, src)
    if group is not None:
        try_call(lambda: count_broadcast(process_group, num_bytes, group.num_hidden(), src))


def _verify_params(
    timeline: RankTimeline, original: Function, process_group: Any, params: Any, logger: Any = None
) -> Any:
    """Count two collectives: each rank sends its number of parameters, and rank 0 their sizes and strides."""
    num_bytes = 2 * LONG_BYTES * sum(parameter.dim() for parameter in params)
    with Wait(timeline, ALL_GATHER, process_group, LONG_BYTES) as group:
        result = original(process_group, params, logger)
    if group is not None:
        try_call(count_hidden, ALL_GATHER, process_group, LONG_BYTES, LONG_BYTES * process_group.size(), 1)
        try_call(lambda: count_broadcast(process_group, num_bytes, group.num_hidden()))
    return result


def _match_buckets(timeline: RankTimeline, original: Function, module: Any) -> Any:
    """Count the reductions of zeros by a rank that has no more data (join)."""
    reducer = reducer_of(module)
    if reducer is None or module._comm_hooks:  # the collectives in the job's own hook are wrapped
        return original(module)
    with Wait(timeline, ALL_REDUCE, module.process_group, 2 * reducer.num_bytes) as group:
        original(module)
    if group is not None:
        group.reducers = [reducer]
        try_call(group.count, timeline, False)
    return None


def _match_bitmap(timeline: RankTimeline, original: Function, module: Any) -> None:
    """Count the exchange of which parameters the other ranks used, by a rank that has no more data (join)."""
    original(module)
    reducer = reducer_of(module)
    if reducer is not None:
        num_bytes = reducer.num_parameters * INT_BYTES
        try_call(count_hidden, ALL_REDUCE, module.process_group, num_bytes, num_bytes, 1)
