"""Reads how many samples a batch has, from its loader or from the shape of its first tensor.

Nothing is computed on tensors. A batch whose samples are not evident has none: unknown is better than a length in
tokens or pixels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from itertools import islice
from typing import Any

import torch
from torch.utils.data import BatchSampler

_MAX_DEPTH = 4  # levels of lists and mappings around a tensor
_MAX_WIDTH = 8  # members of each list or mapping that are examined


def loaded_samples(iterator: Any, batch: Any) -> int | None:
    """Return the samples of the batch that this iterator of a DataLoader has just returned; None: unknown."""
    sampler = iterator._index_sampler
    if type(sampler) is not BatchSampler:  # the job batches by itself, or the size of each batch differs
        return leading_size(batch)
    if sampler.batch_size == 1 and _is_whole_batch(batch):
        return None
    try:
        num_samples = len(sampler.sampler)
    except TypeError:  # a stream, whose last batch may be smaller
        shape = _first_shape(batch)
        if shape and sampler.batch_size not in shape and 0 < shape[0] < sampler.batch_size:
            return int(shape[0])
        return int(sampler.batch_size)
    remaining = num_samples - (iterator._num_yielded - 1) * sampler.batch_size
    return int(min(sampler.batch_size, remaining) if remaining > 0 else sampler.batch_size)


def _is_whole_batch(sample: Any) -> bool:
    """Return True if one sample of the data set looks like a batch: its inputs and labels have equally many rows.

    The random data of facebookresearch/dlrm is such a data set. A long text with a label for each token looks the same.
    """
    tensors = list(_tensors(sample, _MAX_DEPTH))
    return len(tensors) > 1 and tensors[0].size(0) == tensors[-1].size(0) > 1


def leading_size(batch: Any) -> int | None:
    """Return the first dimension of the first tensor that has one, in the order of lists, mappings and dataclasses."""
    shape = _first_shape(batch)
    return int(shape[0]) if shape else None


def input_size(inputs: Any) -> int | None:
    """Return the samples in the input of a model; None for a vector of real numbers, which is a sample and no batch."""
    tensor = _first_tensor(inputs)
    if tensor is None or (not tensor.is_nested and tensor.dim() == 1 and tensor.is_floating_point()):
        return None
    return int(tensor.size(0))


def _first_shape(batch: Any) -> Sequence[int]:
    tensor = _first_tensor(batch)
    if tensor is None:
        return ()
    return (tensor.size(0),) if tensor.is_nested else tensor.shape  # a nested tensor has only a first dimension


def _first_tensor(batch: Any) -> torch.Tensor | None:
    return next(_tensors(batch, _MAX_DEPTH), None)


def _tensors(value: Any, depth: int) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        if value.dim():
            yield value
        return
    if depth:
        for member in islice(_members(value), _MAX_WIDTH):
            yield from _tensors(member, depth - 1)


def _members(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        return iter(value)
    if isinstance(value, Mapping):
        return iter(value.values())
    if is_dataclass(value) and not isinstance(value, type):
        return (getattr(value, field.name, None) for field in fields(value))
    return iter(())
