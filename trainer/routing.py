"""The route of each id to the rank that holds its row.

Ids are routed on the CPU, before they go to a GPU: the numbers of ids by rank are sizes of an all-to-all, and reading a
size back would stop the GPU.

In this file a table is *divided* if its rows are: each of its shards has some of them. Otherwise it is *whole*: each of
its shards, which may have some columns only, has all rows.

Shapes: B samples of this rank, S shards of all ranks, D shards and M ids of divided tables, N rows to send.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from trainer.batch import Batch
from trainer.sharding import Shard, all_groups

INT32_ROWS = 1 << 31  # rows that 32 bits can number; every table has fewer
# With more ids of a table, one copy for each of its shards is faster than one indexed copy for all. For 8 shards both
# take 33 µs at 256 ids (one thread of a Xeon, November 2026); fewer shards favour copies, more the indexed copy.
_MANY_IDS = 256


@dataclass(frozen=True)
class Routed:
    """The bags of a batch for all shards, ordered by rank, then by group, then by shard, then by sample."""

    rows: Tensor  # (N,) int32: rows of the weight of the receiving group, or of the shard (see `Router.row_offsets`)
    lengths: Tensor  # (S · B,) int32
    num_rows: Tensor  # int64, rows for each group of each rank


class _WholeTable(NamedTuple):
    """A whole table with its shards."""

    table: int
    shards: list[int]  # indices among all shards
    shifts: list[int]  # row to send - id, for each shard


class _DividedBags(NamedTuple):
    """The bags of divided tables, ordered by the index of the shard."""

    lengths: Tensor  # (S, B) int32, 0 for the shards of whole tables
    shards: Tensor  # (M,) index of the shard of each row
    rows: Tensor  # (M,)

    def positions(self, first_positions: Tensor) -> Tensor:
        """Return the position of each row to send (M,), given the position of the first row of each shard (S,)."""
        sizes = torch.bincount(self.shards, minlength=len(first_positions))
        first_indices = sizes.cumsum(0) - sizes  # (S,) index of a shard's first row in `rows`
        shifts = first_positions - first_indices  # the rows of a shard stay side by side
        return torch.arange(len(self.rows)) + shifts[self.shards]


class Router:
    """Finds the shard of each id. The cost grows with the tables and the ids, hardly with the shards."""

    def __init__(self, shards: Sequence[Shard], max_rows: int = INT32_ROWS) -> None:
        """`shards` are the shards of all ranks, in order.

        A rank with a group of more than `max_rows` rows receives row numbers of its shards, and adds `row_offsets`.
        """
        self._ranks = torch.tensor([shard.rank for shard in shards], dtype=torch.int64)  # (S,)
        groups = all_groups(shards)
        self._num_groups = len(groups)
        group_sizes = torch.tensor([len(group.shards) for group in groups], dtype=torch.int64)
        self._group_of_shard = torch.arange(len(groups)).repeat_interleave(group_sizes)  # (S,) index among all groups
        self._row_offsets: list[int] = []  # of each shard in the weight of its group
        self._large_ranks: set[int] = set()
        for group in groups:
            *offsets, num_rows = accumulate((shard.num_rows for shard in group.shards), initial=0)
            self._row_offsets += offsets
            if num_rows > max_rows:
                self._large_ranks.add(group.shards[0].rank)
        shifts = [  # row to send - id
            (0 if shard.rank in self._large_ranks else offset) - shard.first_row
            for shard, offset in zip(shards, self._row_offsets, strict=True)
        ]
        shards_of_table = defaultdict[int, list[int]](list)
        for index, shard in enumerate(shards):
            shards_of_table[shard.table].append(index)
        self._whole_tables = [
            _WholeTable(table, indices, [shifts[index] for index in indices])
            for table, indices in shards_of_table.items()
            if len({shards[index].first_row for index in indices}) == 1
        ]
        whole_shards = [index for table in self._whole_tables for index in table.shards]
        self._whole_shards = torch.tensor(whole_shards, dtype=torch.int64)  # (S - D,)
        self._table_of_whole = torch.tensor([shards[index].table for index in whole_shards], dtype=torch.int64)
        self._divided_tables = sorted(shards_of_table.keys() - {whole.table for whole in self._whole_tables})
        # Each row of the divided tables has a key, which orders the rows by table, then by id. One search among the
        # keys of the first rows of all divided shards finds the shard of every id.
        first_key = {table: index * INT32_ROWS for index, table in enumerate(self._divided_tables)}
        divided = sorted(
            (first_key[shard.table] + shard.first_row, index, shifts[index])
            for index, shard in enumerate(shards)
            if shard.table in first_key
        )
        columns = torch.tensor(divided, dtype=torch.int64).view(-1, 3).T.contiguous()
        self._first_keys, self._divided_shards, self._divided_shifts = columns  # (D,) each

    def row_offsets(self, rank: int) -> Tensor | None:
        """Return the first row of each shard of a rank in its group, which the rank adds to the rows that it receives.

        Return None if 32 bits can number the rows of all its groups: then the senders have added it.
        """
        if rank not in self._large_ranks:
            return None
        return torch.tensor(self._row_offsets)[self._ranks == rank]

    def route(self, batch: Batch) -> Routed:
        """Return the bags for all shards. The ids must be rows of their tables."""
        ids = batch.ids.split(batch.lengths.sum(dim=1).tolist())  # by table
        divided = self._divide(batch.lengths, ids) if self._divided_tables else None
        num_samples = batch.lengths.shape[1]
        lengths = divided.lengths if divided else torch.empty(len(self._ranks), num_samples, dtype=torch.int32)
        lengths[self._whole_shards] = batch.lengths[self._table_of_whole].to(torch.int32)
        sizes = lengths.sum(dim=1, dtype=torch.int64)
        first_positions = sizes.cumsum(0) - sizes
        rows = torch.empty(int(sizes.sum()), dtype=torch.int32)
        self._put_whole(rows, ids, first_positions)
        if divided is not None:
            rows[divided.positions(first_positions)] = divided.rows
        num_rows = torch.zeros(self._num_groups, dtype=torch.int64).index_add_(0, self._group_of_shard, sizes)
        return Routed(rows, lengths.flatten(), num_rows)

    def _put_whole(self, rows: Tensor, ids: Sequence[Tensor], first_positions: Tensor) -> None:
        """Write the rows of the whole tables to their positions."""
        firsts = first_positions.tolist()
        for table, shards, shifts in self._whole_tables:
            num_ids = len(ids[table])
            if len(shards) == 1 or num_ids > _MANY_IDS:
                for shard, shift in zip(shards, shifts, strict=True):
                    rows[firsts[shard] : firsts[shard] + num_ids] = ids[table] + shift if shift else ids[table]
            else:
                positions = first_positions[shards, None] + torch.arange(num_ids)
                rows[positions] = (ids[table] + torch.tensor(shifts)[:, None]).to(torch.int32)

    def _divide(self, lengths: Tensor, ids_by_table: Sequence[Tensor]) -> _DividedBags:
        """Return the bags of the divided tables, given the lengths and the ids of all tables."""
        lengths = lengths[self._divided_tables]
        ids = torch.cat([ids_by_table[table] for table in self._divided_tables])
        num_tables, num_samples = lengths.shape
        num_shards = len(self._ranks)
        # The table and the sample of each id (M,)
        table = torch.arange(num_tables).repeat_interleave(lengths.sum(dim=1), output_size=len(ids))
        sample_of_bag = torch.arange(num_samples).repeat(num_tables)
        sample = sample_of_bag.repeat_interleave(lengths.flatten(), output_size=len(ids))
        part = torch.bucketize(table * INT32_ROWS + ids, self._first_keys, right=True) - 1
        shards, rows = self._divided_shards[part], (ids + self._divided_shifts[part]).to(torch.int32)
        new_lengths = torch.bincount(shards * num_samples + sample, minlength=num_shards * num_samples)
        # numpy sorts 16-bit numbers by radix, in a tenth of the time of 64-bit ones.
        sort_keys = shards.numpy().astype(np.uint16 if num_shards <= 1 << 16 else np.int64)
        order = torch.from_numpy(np.argsort(sort_keys, kind="stable"))
        return _DividedBags(new_lengths.to(torch.int32).view(num_shards, num_samples), shards[order], rows[order])
