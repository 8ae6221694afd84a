"""The all-to-alls between the rank that has a sample and the ranks that hold its embedding rows.

    ranks of the samples ── lengths, rows ────▶ ranks of the shards
    ranks of the samples ◀─ pooled vectors ──── ranks of the shards
    ranks of the samples ── their gradients ──▶ ranks of the shards

Each all-to-all is asynchronous, so that computation can overlap with it. In every step all ranks issue the same
all-to-alls in the same order. zmon hooks torch.distributed and needs no call here.

Shapes: R ranks, S shards (T of them on this rank), B samples of this rank, D columns. On the rank of the samples,
vectors are ordered by rank, then by shard, then by sample. On the rank of the shards they are ordered by the rank of
the samples, then by local shard, then by sample.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from trainer.batch import Batch, shares
from trainer.embedding import Bags
from trainer.errors import require
from trainer.loader import Loaded
from trainer.sharding import Shard
from trainer.world import World

PRECISIONS = {"full": None, "float16": torch.float16, "bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class WireConfig:
    """The precision of vectors on the network."""

    forward: str = "full"  # precision of pooled vectors: full (that of the computation), float16 or bfloat16
    backward: str = "full"  # precision of their gradients: the same values

    def __post_init__(self) -> None:
        for key, value in (("wire.forward", self.forward), ("wire.backward", self.backward)):
            require(value in PRECISIONS, key, value, " or ".join(PRECISIONS))


class Exchange:
    """The routes of ids, vectors and gradients between the ranks. They follow from the placement of the shards."""

    def __init__(
        self, shards: Sequence[Shard], replicated: Sequence[int], num_tables: int, world: World, wire: WireConfig
    ) -> None:
        """`shards` are the shards of all ranks, ordered by rank; `replicated` are the tables that every rank has."""
        self.rank, self.wire, self._routes = world.rank, wire, _routes(shards)
        self.num_shards = [sum(shard.rank == rank for shard in shards) for rank in range(world.size)]
        tables = [*(shard.table for shard in shards), *replicated]  # the table of each vector, in the order received
        self._tables, self._num_tables = torch.tensor(tables, device=world.device), num_tables
        self._in_order = self._tables.argsort() if sorted(tables) == list(range(num_tables)) else None

    def send_ids(self, loaded: Loaded) -> IdExchange:
        """Start to send the ids of a batch to the ranks that hold their rows."""
        lengths, rows = _route_ids(loaded.batch, self._routes)
        return IdExchange(lengths, rows, self._num_bags(loaded))

    def send_pooled(self, vectors: Tensor, loaded: Loaded) -> AllToAll:
        """Start to send the pooled vectors (G, D) of the local shards. The rank of the samples receives (S · B, D)."""
        to_send, to_receive = self._num_bags(loaded)
        return AllToAll(vectors, to_receive, to_send, PRECISIONS[self.wire.forward])

    def send_gradients(self, gradient: Tensor, loaded: Loaded) -> AllToAll:
        """Start to send the gradients (S · B, D) of the pooled vectors. The rank of the shards receives (G, D).

        They are scaled by the global batch, because a mean over the batch has too small gradients for half precision.
        """
        to_send, to_receive = self._num_bags(loaded)
        return AllToAll(gradient, to_send, to_receive, PRECISIONS[self.wire.backward], float(loaded.global_batch))

    def merge(self, sharded: Tensor, replicated: Tensor) -> Tensor:
        """Order all vectors of this rank's samples by table: (S · B, D) and (E · B, D) → (F, B, D).

        The vectors of a table that several ranks hold in parts are added up.
        """
        vectors = torch.cat([sharded, replicated]) if len(replicated) else sharded
        vectors = vectors.view(len(self._tables), -1, sharded.shape[1])
        if self._in_order is not None:
            return vectors.index_select(
                0, self._in_order
            )  # copies whole rows, which is four times as fast as vectors[…]
        return vectors.new_zeros(self._num_tables, *vectors.shape[1:]).index_add_(0, self._tables, vectors)

    def split(self, gradient: Tensor) -> tuple[Tensor, Tensor]:
        """Split the gradient of the result of `merge`: (F, B, D) → (S · B, D) and (E · B, D)."""
        vectors = gradient.index_select(0, self._tables)
        return vectors[: len(self._routes)].flatten(0, 1), vectors[len(self._routes) :].flatten(0, 1)

    def _num_bags(self, loaded: Loaded) -> tuple[list[int], list[int]]:
        """Count the bags to send to each rank, and the bags to receive from each rank."""
        samples = [share.size for share in shares(loaded.global_batch, len(self.num_shards))]
        local_shards = self.num_shards[self.rank]
        to_send = [shards * samples[self.rank] for shards in self.num_shards]
        return to_send, [local_shards * number for number in samples]


class IdExchange:
    """The ids of a batch in flight: first the number of ids in each bag, then the ids, as rows of the local weight."""

    def __init__(self, lengths: Tensor, rows: Tensor, num_bags: tuple[list[int], list[int]]) -> None:
        """`lengths` (S · B,) of the samples' bags, their `rows` (N,), and the bags to send and to receive by rank."""
        to_send, self._to_receive = num_bags
        self._rows, self._rows_to_send = rows, _rows_by_rank(lengths, to_send)
        self._lengths_exchange = AllToAll(lengths, to_send, self._to_receive)
        self._rows_exchange: AllToAll | None = None
        self._lengths = lengths

    def send_rows(self) -> None:
        """Wait for the lengths, which give the number of rows to receive. Then start to send the rows."""
        if self._rows_exchange is None:
            self._lengths = self._lengths_exchange.wait()
            rows_to_receive = _rows_by_rank(self._lengths, self._to_receive)
            self._rows_exchange = AllToAll(self._rows, self._rows_to_send, rows_to_receive)

    def wait(self) -> Bags:
        """Wait for the bags that all ranks look up in the local shards."""
        self.send_rows()
        assert self._rows_exchange is not None
        return Bags(self._rows_exchange.wait(), self._lengths)


class AllToAll:
    """An asynchronous all-to-all of a tensor that is split along its first dimension."""

    def __init__(
        self,
        tensor: Tensor,
        to_send: list[int],
        to_receive: list[int],
        precision: torch.dtype | None = None,
        scale: float = 1.0,
    ) -> None:
        self._dtype, self._scale, self._rounded = tensor.dtype, scale, precision is not None
        self._input = (tensor * scale).to(precision) if precision else tensor.contiguous()  # must live until it is sent
        self._output = self._input.new_empty(sum(to_receive), *tensor.shape[1:])
        self._work = dist.all_to_all_single(self._output, self._input, to_receive, to_send, async_op=True)

    def wait(self) -> Tensor:
        """Wait for the data of all ranks and return it, ordered by sender."""
        self._work.wait()
        return self._output.to(self._dtype) / self._scale if self._rounded else self._output


class _Route(NamedTuple):
    """The destination of the ids of one shard."""

    shard: Shard
    shift: int  # row in the rank's weight, which has all its shards, minus id
    is_part: bool  # the shard has only some rows of the table; other ids go to other shards


def _routes(shards: Sequence[Shard]) -> list[_Route]:
    shards_of_table = Counter(shard.table for shard in shards)
    next_row: Counter[int] = Counter()  # by rank: rows of the shards so far
    routes = []
    for shard in shards:
        routes.append(_Route(shard, next_row[shard.rank] - shard.first_row, shards_of_table[shard.table] > 1))
        next_row[shard.rank] += shard.num_rows
    return routes


def _rows_by_rank(lengths: Tensor, num_bags: list[int]) -> list[int]:
    """Sum the lengths of the bags of each rank; `num_bags` has the number of bags of each rank."""
    sums: list[int] = torch.stack([bags.sum() for bags in lengths.split(num_bags)]).tolist()
    return sums


def _route_ids(batch: Batch, routes: Sequence[_Route]) -> tuple[Tensor, Tensor]:
    """Return the lengths of all bags (S · B,) and their rows (N,), by shard, in 32 bits."""
    ids = batch.ids.to(torch.int32)
    ids_of_table = ids.split(batch.lengths.sum(dim=1).tolist())
    lengths_of_table = batch.lengths.to(torch.int32)
    lengths, rows = [lengths_of_table.new_empty(0)], [ids.new_empty(0)]
    for shard, shift, is_part in routes:
        shard_ids, bags = ids_of_table[shard.table], lengths_of_table[shard.table]
        if is_part:
            inside = (shard_ids >= shard.first_row) & (shard_ids < shard.first_row + shard.num_rows)
            shard_ids, bags = shard_ids[inside], _filtered_lengths(bags, inside)
        lengths.append(bags)
        rows.append(shard_ids + shift)
    return torch.cat(lengths), torch.cat(rows)


def _filtered_lengths(lengths: Tensor, inside: Tensor) -> Tensor:
    """Return the lengths of the bags after their ids were filtered by the mask `inside`."""
    bag = torch.arange(len(lengths), device=lengths.device).repeat_interleave(lengths, output_size=len(inside))
    return torch.bincount(bag[inside], minlength=len(lengths)).to(lengths.dtype)
