"""Weights of embedding rows in half precision: half the memory of float32. An update is computed in float32.

A small change of a large weight would be lost if it were rounded to the nearest number. It is rounded up or down at
random instead, once, so that the mean over many updates is exact (stochastic rounding; arXiv 1502.02551, 2010.06192).
In float16, weights below 2^-14 are the exception: they become the nearest number, and numbers are 2^-24 apart there.
Weights above 65,504 become infinite in float16.

The random numbers follow from seed, step, table, row and column alone, so that they do not depend on the plan. The key
of a row is a hash of 64 bits (the finalizer of SplitMix64, doi 10.1145/2660193.2660195). Its halves a and b give the
numbers of the columns: the upper bits of a · c + b, with a factor c for each column. Any two of them are independent
(multiply-shift hashing, doi 10.1007/3-540-60922-9_46).

Shapes: G bags, N rows looked up, U distinct rows touched, D columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from itertools import accumulate
from struct import pack

import torch
from torch import Tensor

from trainer.kernel import Bags, Precision
from trainer.sharding import Shard

_NUM_DROPPED = {torch.bfloat16: 16, torch.float16: 13}  # bits of a float32 that a number of this type does not have
_ROW_FACTOR, _TABLE_FACTOR = -0x61C8864680B583EB, -0x2E4AB5CD2E6D12FD  # odd numbers, as int64
_FINALIZER = ((30, -0x40A7B892E31B1A47), (27, -0x6B2FB644ECCEEE15))  # shifts and factors of SplitMix64, as int64


class HalfPrecision(Precision):
    """The weights of the shards of a group, one after the other."""

    def __init__(
        self, dtype: torch.dtype, compute_dtype: torch.dtype, seed: int, shards: Sequence[Shard], device: torch.device
    ) -> None:
        super().__init__(dtype, compute_dtype)
        self._seed, self._num_dropped = seed, _NUM_DROPPED[dtype]
        self._dropped_mask = (1 << self._num_dropped) - 1
        edges = [*accumulate((shard.num_rows for shard in shards), initial=0)]  # of the shards in the weight
        self._ends = torch.tensor(edges[1:], device=device)
        shifts = torch.tensor([shard.first_row - begin for shard, begin in zip(shards, edges[:-1], strict=True)])
        tables = torch.tensor([shard.table for shard in shards])
        self._shard_keys = (shifts * _ROW_FACTOR + tables * _TABLE_FACTOR).to(device)  # added to the keys of rows
        (first_column,) = {shard.first_column for shard in shards}
        columns = torch.arange(first_column, first_column + shards[0].num_columns)
        self._factors = _mix(columns + 1).int().to(device)  # of the columns

    def sums(self, weight: Tensor, bags: Bags) -> Tensor:
        """Return the sum of the rows of each bag (G, D): computed in float32, and rounded to the nearest number."""
        return super().sums(weight, bags).to(self.compute_dtype)

    def add(self, weight: Tensor, rows: Tensor, change: Tensor, step: int, slots: Tensor) -> None:
        """Add to rows and round. Numbers that the type has stay as they are, and so do infinite ones and NaN."""
        slots = slots.long()
        old = weight.index_select(0, slots)
        new = change.add_(old.to(self.compute_dtype)).float()
        rounded = self.draws(rows, step).add_(new.view(torch.int32)).bitwise_and_(~self._dropped_mask)
        result = rounded.view(torch.float32)
        if weight.is_cuda or not new.sum().isfinite():  # the sum costs much less than a mask, but would stop a GPU
            result = result.where(new.isfinite(), new)
        result = result.to(self.dtype)
        if weight.is_cuda:  # rows without a gradient may occur again there (kernel.py), so copies would race
            add_bits(weight, slots, old, result)
        else:
            _as_64_bits(weight).index_copy_(0, slots, _as_64_bits(result))

    def draws(self, rows: Tensor, step: int) -> Tensor:
        """Return a random number (U, D) of the dropped bits for each weight of these rows in a step, as int32."""
        step_hash = blake2b(pack("<qq", self._seed, step), digest_size=8).digest()
        step_key = int.from_bytes(step_hash, "little", signed=True)
        shard = torch.searchsorted(self._ends, rows, right=True)
        keys = (rows.long() * _ROW_FACTOR).add_(self._shard_keys.index_select(0, shard)).add_(step_key)
        halves = _mix(keys).view(torch.int32).view(-1, 2)
        draws = (halves[:, :1] * self._factors).add_(halves[:, 1:])
        return draws.bitwise_right_shift_(32 - self._num_dropped).bitwise_and_(self._dropped_mask)


def _as_64_bits(rows: Tensor) -> Tensor:
    """Return a view of the rows as 64-bit numbers, if their length permits it: fewer numbers are copied faster."""
    return rows.view(torch.int64) if rows.shape[1] % 4 == 0 else rows


def add_bits(weight: Tensor, slots: Tensor, old: Tensor, new: Tensor) -> None:
    """Replace rows by new ones. A row may occur several times if all of them but one are equal to the old one."""
    weight.view(torch.int16).index_add_(0, slots, new.view(torch.int16) - old.view(torch.int16))


def _mix(numbers: Tensor) -> Tensor:
    """Return a bijection of numbers of 64 bits in which every bit depends on all bits: the finalizer of SplitMix64."""
    for shift, factor in _FINALIZER:
        numbers = (numbers ^ _shift(numbers, shift)) * factor
    return numbers ^ _shift(numbers, 31)


def _shift(numbers: Tensor, shift: int) -> Tensor:
    """Shift to the right and fill with zeros; torch fills with the sign."""
    return (numbers >> shift) & ((1 << 64 - shift) - 1)
