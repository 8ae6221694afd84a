"""The route of each id to the rank that holds its row.

Ids are routed on the CPU, before they go to a GPU: their numbers by rank are sizes of an all-to-all, and reading a size
back would stop the GPU.

Shapes: F tables, B samples of this rank, S shards of all ranks, N rows to send.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from trainer.batch import Batch
from trainer.sharding import Shard, group_key

INT32_ROWS = 1 << 31  # rows that 32 bits can number; every table has fewer
_MANY_IDS = 256  # with more ids of a table, one copy for each of its shards is faster than one indexed copy for all
Group = tuple[int, tuple[str, int, int]]  # a rank, and the key of the group there (`trainer.sharding.group_key`)


@dataclass(frozen=True)
class Routed:
    """The bags of a batch for all shards, ordered by rank, then by group, then by shard, then by sample."""

    rows: Tensor  # (N,) int32: rows of the weight of the receiving group, or of the shard (see `Router.row_offsets`)
    lengths: Tensor  # (S · B,) int32
    num_rows: Tensor  # int64, rows for each group of each rank


class _WholeTable(NamedTuple):
    """A table whose shards have all of its rows: one shard, or several with some columns each."""

    table: int
    shards: list[int]  # indices among all shards
    added: list[int]  # to an id, to get a row of the shard


class _DividedBags(NamedTuple):
    """The bags of tables whose shards have some rows each, ordered by the index of the shard."""

    lengths: Tensor  # (S, B) int32, 0 for the shards of whole tables
    shards: Tensor  # (M,) index of the shard of each of the M rows
    rows: Tensor  # (M,)

    def positions(self, first_positions: Tensor) -> Tensor:
        """Return the position of each row to send (M,), given that of the first row of each shard."""
        sizes = torch.bincount(self.shards, minlength=len(first_positions))
        return torch.arange(len(self.rows)) + (first_positions - (sizes.cumsum(0) - sizes))[self.shards]


class Router:
    """Finds the shard of each id. The cost grows with the tables and the ids, hardly with the shards."""

    def __init__(self, shards: Sequence[Shard], max_rows: int = INT32_ROWS) -> None:
        """`shards` are the shards of all ranks, in order.

        A rank with a group of more than `max_rows` rows gets rows of its shards, and adds `row_offsets` itself.
        """
        self._ranks = torch.tensor([shard.rank for shard in shards], dtype=torch.int64)
        self._row_offsets, rows_of_group = _row_offsets(shards)
        number_of_group = {group: number for number, group in enumerate(rows_of_group)}
        self._groups = torch.tensor([number_of_group[_group(shard)] for shard in shards], dtype=torch.int64)
        self._num_groups = len(rows_of_group)
        self._large = {rank for (rank, _), num_rows in rows_of_group.items() if num_rows > max_rows}
        added = [0 if s.rank in self._large else rows for s, rows in zip(shards, self._row_offsets, strict=True)]
        first_rows = defaultdict[int, set[int]](set)
        for shard in shards:
            first_rows[shard.table].add(shard.first_row)
        self._divided_tables = sorted(table for table, rows in first_rows.items() if len(rows) > 1)
        whole = [index for index, shard in enumerate(shards) if len(first_rows[shard.table]) == 1]
        self._whole_shards = torch.tensor(whole, dtype=torch.int64)
        self._table_of_whole = torch.tensor([shards[index].table for index in whole], dtype=torch.int64)
        self._whole_tables = _whole_tables(shards, whole, added)
        # A row of a divided table is numbered by its table and its id, so that one search finds the shard of every id.
        number_of = {table: number for number, table in enumerate(self._divided_tables)}
        parts = sorted(
            (number_of[shard.table] * INT32_ROWS + shard.first_row, index, added[index] - shard.first_row)
            for index, shard in enumerate(shards)
            if shard.table in number_of
        )
        columns = torch.tensor(parts, dtype=torch.int64).view(-1, 3).T.contiguous()
        self._first_numbers, self._divided_shards, self._divided_added = columns

    def row_offsets(self, rank: int) -> Tensor | None:
        """Return the first row of each shard of a rank in its group, which the rank adds to the rows that it receives.

        None if 32 bits can number the rows of all its groups: then the senders have added it.
        """
        if rank not in self._large:
            return None
        return torch.tensor(self._row_offsets)[self._ranks == rank]

    def route(self, batch: Batch) -> Routed:
        """Return the bags for all shards. The ids must be rows of their tables."""
        ids = batch.ids.split(batch.lengths.sum(dim=1).tolist())
        divided = None
        if self._divided_tables:
            divided_ids = torch.cat([ids[table] for table in self._divided_tables])
            divided = self._divide(batch.lengths[self._divided_tables], divided_ids)
            lengths = divided.lengths
        else:
            lengths = torch.empty(len(self._ranks), batch.lengths.shape[1], dtype=torch.int32)
        lengths[self._whole_shards] = batch.lengths[self._table_of_whole].to(torch.int32)
        sizes = lengths.sum(dim=1, dtype=torch.int64)
        first_positions = sizes.cumsum(0) - sizes
        rows = torch.empty(int(sizes.sum()), dtype=torch.int32)
        self._put_whole(rows, ids, first_positions)
        if divided is not None:
            rows[divided.positions(first_positions)] = divided.rows
        by_group = torch.zeros(self._num_groups, dtype=torch.int64).index_add_(0, self._groups, sizes)
        return Routed(rows, lengths.flatten(), by_group)

    def _put_whole(self, rows: Tensor, ids: Sequence[Tensor], first_positions: Tensor) -> None:
        """Write the rows of the whole tables to their positions."""
        firsts = first_positions.tolist()
        for table, shards, added in self._whole_tables:
            num_ids = len(ids[table])
            if len(shards) == 1 or num_ids > _MANY_IDS:
                for shard, more in zip(shards, added, strict=True):
                    rows[firsts[shard] : firsts[shard] + num_ids] = ids[table] + more if more else ids[table]
            else:
                positions = first_positions[shards, None] + torch.arange(num_ids)
                rows[positions] = (ids[table] + torch.tensor(added)[:, None]).to(torch.int32)

    def _divide(self, lengths: Tensor, ids: Tensor) -> _DividedBags:
        """Return the bags of the divided tables, given their lengths and ids."""
        num_tables, num_samples = lengths.shape
        table = torch.arange(num_tables).repeat_interleave(lengths.sum(dim=1), output_size=len(ids))
        sample = torch.arange(num_samples).repeat(num_tables)
        sample = sample.repeat_interleave(lengths.flatten(), output_size=len(ids))
        part = torch.bucketize(ids + table * INT32_ROWS, self._first_numbers, right=True) - 1
        shards, rows = self._divided_shards[part], (ids + self._divided_added[part]).to(torch.int32)
        bags = torch.bincount(shards * num_samples + sample, minlength=len(self._ranks) * num_samples)
        # numpy sorts 16-bit numbers by radix, in a tenth of the time of 64-bit ones.
        numbers = shards.numpy().astype(np.uint16 if len(self._ranks) <= 1 << 16 else np.int64)
        order = torch.from_numpy(np.argsort(numbers, kind="stable"))
        return _DividedBags(bags.to(torch.int32).view(len(self._ranks), num_samples), shards[order], rows[order])


def _whole_tables(shards: Sequence[Shard], indices: Sequence[int], added: Sequence[int]) -> list[_WholeTable]:
    """Return the tables of the shards at these indices."""
    by_table = defaultdict[int, list[int]](list)
    for index in indices:
        by_table[shards[index].table].append(index)
    return [_WholeTable(table, members, [added[index] for index in members]) for table, members in by_table.items()]


def _group(shard: Shard) -> Group:
    return shard.rank, group_key(shard)


def _row_offsets(shards: Sequence[Shard]) -> tuple[list[int], dict[Group, int]]:
    """Return the first row of each shard in the weight of its group, and the rows of each group."""
    offsets, rows_of_group = [], dict[Group, int]()
    for shard in shards:
        offset = rows_of_group.get(_group(shard), 0)
        offsets.append(offset)
        rows_of_group[_group(shard)] = offset + shard.num_rows
    return offsets, rows_of_group
