"""Lets the C edge measure the backward passes of the only DDP module, if each of them reduces the same buckets.

That is the common case: one module, whose buckets are rebuilt, and in which each backward pass uses all parameters. The
C edge then needs no hook in Python (zmon/probe/edge/reduction.h): one hook stays on a parameter of the module. In all
other cases `ddp.py` measures each pass. What the C edge cannot explain is counted by `reducer.py`, for example a pass
that raised.
"""

from __future__ import annotations

import weakref
from typing import Any

from torch.autograd import Variable

from zmon import probe
from zmon.probe.edge import fronts
from zmon.probe.hooks.reducer import ALL_REDUCE, Group, Reducer, reducers

_offered: _Offer | None = None


class _Offer:
    """A reducer whose passes the C edge measures, with the hook on a parameter of its module.

    The hook refers to the process group. `end` removes it, at the latest when the module ends: a parameter may live on,
    and be part of another module later.
    """

    def __init__(self, reducer: Reducer, module: Any, parameter: Any, reduction: Any) -> None:
        self.reducer, self.reduction = reducer, reduction
        front = fronts.front("gradient", _on_gradient, partner=reduction)
        self._hook = parameter.register_post_accumulate_grad_hook(front)
        self.end = weakref.finalize(module, self._remove)
        self.end.atexit = False

    def _remove(self) -> None:
        self._hook.remove()
        self.reduction.on_computed = None  # it refers to the reduction itself


def offer() -> None:
    """Let the C edge measure the passes of the only reducer, if it is simple and this rank has the C edge."""
    global _offered
    reducer = reducers[0] if len(reducers) == 1 else None
    if _offered is not None and reducer is _offered.reducer:
        return
    withdraw()
    if reducer is None or (module := reducer.module()) is None or not _is_simple(reducer, module):
        return
    # A hook on any parameter will do, because the module waits for the gradients of all.
    parameters = reversed(getattr(module, "_module_parameters", ()))
    parameter = next((parameter for parameter in parameters if parameter.requires_grad), None)
    reduction = _make_reduction(reducer, module)
    if parameter is not None and reduction is not None:
        _offered = _Offer(reducer, module, parameter, reduction)
        fronts.connect(reduction=reduction)


def is_measuring() -> bool:
    """Return True during a backward pass that the C edge measures."""
    return _offered is not None and bool(_offered.reduction.is_running)


def withdraw() -> None:
    """Let `ddp.py` measure the passes again, because something has changed."""
    global _offered
    if _offered is not None:
        fronts.connect(reduction=None)
        _offered.end()
        _offered = None


def _is_simple(reducer: Reducer, module: Any) -> bool:
    """Return True if each pass reduces the same known buckets, by torch's own all-reduce."""
    has_known_buckets = reducer.has_final_buckets() and reducer.num_buckets and not reducer.is_sparse
    uses_all_parameters = not module.find_unused_parameters and (reducer.has_delayed or not module.static_graph)
    return bool(has_known_buckets and reducer.num_early == 0 and uses_all_parameters and not module._comm_hooks)


def _make_reduction(reducer: Reducer, module: Any) -> Any:
    """Return what the C edge needs to count the reductions of this module; None without the C edge."""
    group = Group(module.process_group)
    group.reducers.append(reducer)
    reduction = fronts.reduction(
        read_sequence=module.process_group._get_sequence_number_for_group,
        queue_callback=Variable._execution_engine.queue_callback,
        name=group.name,
        op=ALL_REDUCE,
        group=group.number,
        num_bytes=reducer.num_bytes,
        num_buckets=reducer.num_buckets,
    )

    def count_slowly(sequence_before: int, issued_before: int, is_complete: bool) -> None:
        group.sequence_before, group.issued_before = sequence_before, issued_before
        if probe.current is not None:
            group.count(probe.current)
        if reducer.num_early or not is_complete:  # the next pass completes this one, or the parameter took no part
            withdraw()

    if reduction is not None:
        reduction.count_slowly = count_slowly
    return reduction


def _on_gradient(_: Any) -> None:
    """Do nothing; this is what the compiler sees of the hook."""
