"""Wraps the functional collectives, which DTensor, compiled and tensor-parallel code use.

They return a tensor that waits for its collective when it is first used
(torch/distributed/_functional_collectives.py). Collectives that a compiler traced do not come through here. The native
sequence number of the group still counts them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from time import monotonic_ns
from typing import Any

import torch

from zmon import probe
from zmon.probe.hooks import works
from zmon.probe.hooks.collectives import enter, group_number
from zmon.probe.hooks.describe import size
from zmon.probe.hooks.later import when_imported
from zmon.probe.hooks.replacing import replace, wrapper_of
from zmon.probe.rank import OP_NUMBER, Issued, RankTimeline

# Each name begins with its op. Beside it is the deprecated name, which calls the new one in a torch with both: only the
# new one is wrapped, so that a call counts once.
_NAMES = {
    "all_reduce": "",
    "all_reduce_coalesced": "",
    "broadcast": "",
    "all_gather_single": "all_gather_tensor",
    "all_gather_single_autograd": "all_gather_tensor_autograd",
    "all_gather_single_coalesced": "all_gather_into_tensor_coalesced",
    "reduce_scatter_single": "reduce_scatter_tensor",
    "reduce_scatter_single_autograd": "reduce_scatter_tensor_autograd",
    "reduce_scatter_single_coalesced": "reduce_scatter_tensor_coalesced",
    "all_to_all_single": "",
    "all_to_all_single_autograd": "",
}


def install() -> None:
    """Wrap the functional collectives, once, when the job imports them; other jobs do not pay for the import."""
    when_imported("torch.distributed._functional_collectives", _wrap_all)
    when_imported("torch.distributed.tensor._collective_utils", _wrap_change_of_shards)


def _wrap_change_of_shards(utils: Any) -> None:
    if not hasattr(utils.shard_dim_alltoall, "__zmon__"):
        replace({utils.shard_dim_alltoall: _wrap_shard_dim_all_to_all(utils.shard_dim_alltoall)})


def _wrap_all(functional: Any) -> None:
    if hasattr(functional.wait_tensor, "__zmon__"):
        return
    wrappers = {functional.wait_tensor: works.wrap_wait(functional.wait_tensor)}
    for new, deprecated in _NAMES.items():
        original = getattr(functional, new, None) or getattr(functional, deprecated, None)
        if original is not None:
            op = next(op for op in OP_NUMBER if new.startswith(op))
            wrappers[original] = _wrap_collective(original, functional, OP_NUMBER[op])
    replace(wrappers)


def _wrap_collective(original: Callable[..., Any], functional: Any, op: int) -> Callable[..., Any]:
    names = list(inspect.signature(original).parameters)
    group_index = names.index("group")
    is_broadcast = op == OP_NUMBER["broadcast"]

    @wrapper_of(original)
    def collective(*args: Any, **kwargs: Any) -> Any:
        timeline = probe.current
        if timeline is None or functional._are_we_tracing():
            return original(*args, **kwargs)
        begin = monotonic_ns()
        entered = False
        sent = 0
        try:
            group = _resolve_group(functional, args[group_index] if group_index < len(args) else kwargs["group"])
            if not is_broadcast or group.rank() == (args[1] if len(args) > 1 else kwargs["src"]):
                sent = size(args[0] if args else kwargs[names[0]])
            entered = enter(timeline, op, group, sent, 0)
        except Exception:
            timeline.ledger.dropped += 1  # exported; if the call is wrong, torch itself raises the error
        issued = timeline.issue()
        timeline.overhead_ns += monotonic_ns() - begin
        if not entered:
            return original(*args, **kwargs)
        try:
            result = original(*args, **kwargs)
        finally:
            timeline.leave_op(None, True)
        _watch_result(timeline, op, group, sent, 0 if is_broadcast and sent else size(result), result, issued)
        return result

    return collective


@probe.guarded
def _watch_result(
    timeline: RankTimeline, op: int, group: Any, sent: int, received: int, result: Any, issued: Issued
) -> None:
    timeline.count_op(op, group_number(group), 0, received, 0)
    first = result[0] if isinstance(result, list | tuple) else result
    works.watch(getattr(first, "elem", first), op, group_number(group), sent + received, issued)


def _wrap_shard_dim_all_to_all(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap DTensor's change of the sharded dimension, an all-to-all that waits by itself."""

    @wrapper_of(original)
    def collective(*args: Any, **kwargs: Any) -> Any:
        timeline = probe.current
        if timeline is None or torch.compiler.is_compiling():
            return original(*args, **kwargs)
        entered = False
        try:
            entered = _enter_change_of_shards(timeline, *args, **kwargs)
        except Exception:
            timeline.ledger.dropped += 1  # exported; if the call is wrong, torch itself raises the error
        try:
            return original(*args, **kwargs)
        finally:
            if entered:
                timeline.leave_op()

    return collective


def _enter_change_of_shards(
    timeline: RankTimeline, input: Any, gather_dim: int, shard_dim: int, mesh: Any, mesh_dim: int
) -> bool:
    num_bytes = size(input)
    return enter(timeline, OP_NUMBER["all_to_all"], mesh.get_group(mesh_dim), num_bytes, num_bytes)


def _resolve_group(functional: Any, group: Any) -> Any:
    if isinstance(group, torch.distributed.ProcessGroup):
        return group
    return torch.distributed.distributed_c10d._resolve_process_group(functional._resolve_group_name(group))
