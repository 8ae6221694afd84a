"""Describes calls of torch.distributed: bytes sent and received, process group, and whether they are asynchronous.

Each describer has the signature of the function it describes, so that positional and keyword arguments both work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
import torch.distributed as dist

Tensors: TypeAlias = "torch.Tensor | Sequence[torch.Tensor] | None"
# Bytes sent, bytes received, process group, whether asynchronous. A plain tuple, because each call creates one.
Call: TypeAlias = tuple[int, int, Any, bool]


def size(tensors: Any) -> int:
    """Return the bytes of a tensor or of a list of tensors; 0 for None."""
    try:
        return tensors.nbytes  # type: ignore[no-any-return]
    except (AttributeError, RuntimeError):  # a list, None, or a sparse tensor
        if tensors is None:
            return 0
        if isinstance(tensors, torch.Tensor):
            return int(tensors._indices().nbytes + tensors._values().nbytes)
        return sum(map(size, tensors))


def _all_to_all(
    output_tensor_list: Tensors, input_tensor_list: Tensors, group: Any = None, async_op: bool = False
) -> Call:
    return size(input_tensor_list), size(output_tensor_list), group, async_op


def _all_to_all_single(
    output: Tensors, input: Tensors, output_split_sizes: Any = None, input_split_sizes: Any = None,
    group: Any = None, async_op: bool = False,
) -> Call:  # fmt: skip
    return size(input), size(output), group, async_op


def _all_reduce(tensor: Tensors, op: Any = None, group: Any = None, async_op: bool = False) -> Call:
    num_bytes = size(tensor)
    return num_bytes, num_bytes, group, async_op


def _all_gather(tensor_list: Tensors, tensor: Tensors, group: Any = None, async_op: bool = False) -> Call:
    return size(tensor), size(tensor_list), group, async_op


def _all_gather_single(
    output_tensor: Tensors, input_tensor: Tensors, group: Any = None, async_op: bool = False
) -> Call:
    return size(input_tensor), size(output_tensor), group, async_op


def _reduce_scatter(
    output: Tensors, input_list: Tensors, op: Any = None, group: Any = None, async_op: bool = False
) -> Call:
    return size(input_list), size(output), group, async_op


def _reduce_scatter_single(
    output: Tensors, input: Tensors, op: Any = None, group: Any = None, async_op: bool = False
) -> Call:
    return size(input), size(output), group, async_op


def _broadcast(
    tensor: Tensors, src: int | None = None, group: Any = None, async_op: bool = False, group_src: int | None = None
) -> Call:
    is_source = _is_this_rank(src, group_src, group)
    return size(tensor) if is_source else 0, 0 if is_source else size(tensor), group, async_op


def _reduce(
    tensor: Tensors, dst: int | None = None, op: Any = None, group: Any = None, async_op: bool = False,
    group_dst: int | None = None,
) -> Call:  # fmt: skip
    return size(tensor), size(tensor) if _is_this_rank(dst, group_dst, group) else 0, group, async_op


def _gather(
    tensor: Tensors, gather_list: Tensors = None, dst: int | None = None, group: Any = None,
    async_op: bool = False, group_dst: int | None = None,
) -> Call:  # fmt: skip
    return size(tensor), size(gather_list), group, async_op


def _scatter(
    tensor: Tensors, scatter_list: Tensors = None, src: int | None = None, group: Any = None,
    async_op: bool = False, group_src: int | None = None,
) -> Call:  # fmt: skip
    return size(scatter_list), size(tensor), group, async_op


def _barrier(group: Any = None, async_op: bool = False, device_ids: Any = None, timeout: Any = None) -> Call:
    return 0, 0, group, async_op


def _monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> Call:
    return 0, 0, group, False


def _send(tensor: Tensors, dst: Any = None, group: Any = None, tag: int = 0, group_dst: Any = None) -> Call:
    return size(tensor), 0, group, False


def _recv(tensor: Tensors, src: Any = None, group: Any = None, tag: int = 0, group_src: Any = None) -> Call:
    return 0, size(tensor), group, False


# The op that zmon reports, and the describer, by name of a function in torch.distributed.
DESCRIBERS: dict[str, tuple[str, Callable[..., Call]]] = {
    "all_to_all": ("all_to_all", _all_to_all),
    "all_to_all_single": ("all_to_all", _all_to_all_single),
    "all_reduce": ("all_reduce", _all_reduce),
    "all_gather": ("all_gather", _all_gather),
    "all_gather_into_tensor": ("all_gather", _all_gather_single),
    "all_gather_single": ("all_gather", _all_gather_single),
    "reduce_scatter": ("reduce_scatter", _reduce_scatter),
    "reduce_scatter_tensor": ("reduce_scatter", _reduce_scatter_single),
    "reduce_scatter_single": ("reduce_scatter", _reduce_scatter_single),
    "broadcast": ("broadcast", _broadcast),
    "reduce": ("reduce", _reduce),
    "gather": ("gather", _gather),
    "scatter": ("scatter", _scatter),
    "barrier": ("barrier", _barrier),
    "monitored_barrier": ("barrier", _monitored_barrier),
    "send": ("send", _send),
    "recv": ("recv", _recv),
}

# Of calls with single tensors whose sizes do not depend on the rank: the parameter whose bytes are sent, and the one
# whose bytes are received (None: no bytes).
PARAMETERS: dict[Callable[..., Call], tuple[str | None, str | None]] = {
    _all_to_all_single: ("input", "output"),
    _all_reduce: ("tensor", "tensor"),
    _all_gather_single: ("input_tensor", "output_tensor"),
    _reduce_scatter_single: ("input", "output"),
    _barrier: (None, None),
    _send: ("tensor", None),
    _recv: (None, "tensor"),
}


def _is_this_rank(rank: int | None, group_rank: int | None, group: Any) -> bool:
    return bool(dist.get_rank() == rank if group_rank is None else dist.get_rank(group) == group_rank)
