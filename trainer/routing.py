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
_LONG = 256  # ids of a table from which one copy for each of its shards is faster than one for all of them


@dataclass(frozen=True)
class Routed:
    """The bags of a batch for all shards, ordered by rank, then by group, then by shard, then by sample."""

    rows: Tensor  # (N,) int32: rows of the weight of the receiving group, or of the shard (see `Router.begins`)
    lengths: Tensor  # (S · B,) int32
    num_rows: Tensor  # int64, rows for each group of each rank


class _Whole(NamedTuple):
    """The shards of one table that have all of its rows: one, or several with some columns each."""

    places: list[int]  # among all shards
    shifts: list[int]  # what to add to an id to get a row of the shard


class _Divided(NamedTuple):
    """The bags for the parts of divided tables, ordered by the place of the part among all shards."""

    lengths: Tensor  # (S, B) int32, 0 for the shards that are whole tables
    places: Tensor  # (M,) the place of each row's part
    rows: Tensor  # (M,)

    def positions(self, begins: Tensor) -> Tensor:
        """Return the position of each row (M,), given the position of the first row of each shard."""
        sizes = torch.bincount(self.places, minlength=len(begins))
        return torch.arange(len(self.rows)) + (begins - (sizes.cumsum(0) - sizes))[self.places]


class Router:
    """Finds the shard of each id. The cost depends on the numbers of tables and ids, hardly on that of shards."""

    def __init__(self, shards: Sequence[Shard], max_rows: int = INT32_ROWS) -> None:
        """`shards` are the shards of all ranks, in order. A rank with a group of more than `max_rows` adds `begins`."""
        self._ranks = torch.tensor([shard.rank for shard in shards], dtype=torch.int64)
        self._begins, rows_of_group = _begins(shards)
        number_of_group = {group: number for number, group in enumerate(rows_of_group)}
        self._groups = torch.tensor([number_of_group[_group(shard)] for shard in shards], dtype=torch.int64)
        self._num_groups = len(rows_of_group)
        self._large = {rank for (rank, _), num_rows in rows_of_group.items() if num_rows > max_rows}
        begins = [0 if s.rank in self._large else begin for s, begin in zip(shards, self._begins, strict=True)]
        ranges = defaultdict[int, set[int]](set)
        for shard in shards:
            ranges[shard.table].add(shard.first_row)
        whole = [place for place, shard in enumerate(shards) if len(ranges[shard.table]) == 1]
        self._whole_places = torch.tensor(whole, dtype=torch.int64)
        self._whole_tables = torch.tensor([shards[place].table for place in whole], dtype=torch.int64)
        self._whole = _by_table(shards, whole, begins)
        # Tables of which several shards have some rows each. A row is numbered by its table and its id, so that one
        # search finds the part of every id.
        self._divided = sorted(table for table, firsts in ranges.items() if len(firsts) > 1)
        number_of = {table: number for number, table in enumerate(self._divided)}
        parts = sorted(
            (number_of[shard.table] * INT32_ROWS + shard.first_row, place, begins[place] - shard.first_row)
            for place, shard in enumerate(shards)
            if shard.table in number_of
        )
        self._firsts, self._places, self._shifts = torch.tensor(parts, dtype=torch.int64).view(-1, 3).T.contiguous()

    def begins(self, rank: int) -> Tensor | None:
        """Return the first row of each shard of a rank in its group, which the rank adds to the rows that it receives.

        None if 32 bits can number the rows of all its groups: then the senders have added it.
        """
        if rank not in self._large:
            return None
        return torch.tensor(self._begins)[self._ranks == rank]

    def route(self, batch: Batch) -> Routed:
        """Return the bags for all shards. The ids must be rows of their tables."""
        ids = batch.ids.split(batch.lengths.sum(dim=1).tolist())
        divided = None
        if self._divided:
            of_divided = torch.cat([ids[table] for table in self._divided])
            divided = self._divide(batch.lengths[self._divided], of_divided)
            lengths = divided.lengths
        else:
            lengths = torch.empty(len(self._ranks), batch.lengths.shape[1], dtype=torch.int32)
        lengths[self._whole_places] = batch.lengths[self._whole_tables].to(torch.int32)
        sizes = lengths.sum(dim=1, dtype=torch.int64)
        begins = sizes.cumsum(0) - sizes
        rows = torch.empty(int(sizes.sum()), dtype=torch.int32)
        firsts = begins.tolist()
        for table, whole in self._whole:
            of_table = ids[table]
            if len(whole.places) == 1 or len(of_table) > _LONG:
                for place, shift in zip(whole.places, whole.shifts, strict=True):
                    rows[firsts[place] : firsts[place] + len(of_table)] = of_table + shift if shift else of_table
            else:
                positions = begins[whole.places, None] + torch.arange(len(of_table))
                rows[positions] = (of_table + torch.tensor(whole.shifts)[:, None]).to(torch.int32)
        if divided is not None:
            rows[divided.positions(begins)] = divided.rows
        by_group = torch.zeros(self._num_groups, dtype=torch.int64).index_add_(0, self._groups, sizes)
        return Routed(rows, lengths.flatten(), by_group)

    def _divide(self, lengths: Tensor, ids: Tensor) -> _Divided:
        """Return the bags of all parts, given lengths and ids of the divided tables."""
        num_tables, num_samples = lengths.shape
        table = torch.arange(num_tables).repeat_interleave(lengths.sum(dim=1), output_size=len(ids))
        sample = torch.arange(num_samples).repeat(num_tables)
        sample = sample.repeat_interleave(lengths.flatten(), output_size=len(ids))
        part = torch.bucketize(ids + table * INT32_ROWS, self._firsts, right=True) - 1
        places, rows = self._places[part], (ids + self._shifts[part]).to(torch.int32)
        bags = torch.bincount(places * num_samples + sample, minlength=len(self._ranks) * num_samples)
        # numpy sorts 16-bit numbers by radix, in a tenth of the time of 64-bit ones.
        numbers = places.numpy().astype(np.uint16 if len(self._ranks) <= 1 << 16 else np.int64)
        order = torch.from_numpy(np.argsort(numbers, kind="stable"))
        return _Divided(bags.to(torch.int32).view(len(self._ranks), num_samples), places[order], rows[order])


def _by_table(shards: Sequence[Shard], places: Sequence[int], begins: Sequence[int]) -> list[tuple[int, _Whole]]:
    """Return the shards at these places, by table."""
    of_table = defaultdict[int, list[int]](list)
    for place in places:
        of_table[shards[place].table].append(place)
    return [(table, _Whole(group, [begins[n] for n in group])) for table, group in of_table.items()]


def _group(shard: Shard) -> tuple[int, tuple[str, int, int]]:
    return shard.rank, group_key(shard)


def _begins(shards: Sequence[Shard]) -> tuple[list[int], dict[tuple[int, tuple[str, int, int]], int]]:
    """Return the first row of each shard in the weight of its group, and the rows of each group."""
    begins, rows_of_group = [], dict[tuple[int, tuple[str, int, int]], int]()
    for shard in shards:
        begin = rows_of_group.get(_group(shard), 0)
        begins.append(begin)
        rows_of_group[_group(shard)] = begin + shard.num_rows
    return begins, rows_of_group
