"""The all-to-alls between the rank that has a sample and the ranks that have its rows.

    samples' ranks ── lengths, rows ────▶ rows' ranks
    samples' ranks ◀─ pooled vectors ──── rows' ranks
    samples' ranks ── their gradients ──▶ rows' ranks

Each is begun and arrives later, so that something else is computed meanwhile. Every rank begins the same ones in the
same order in every step. zmon sees them by itself.

Shapes: R ranks, S shards (of which T here), B samples here, D columns; vectors are ordered by rank, then by shard, then
by sample on their way to a sample's rank, and the same way by sample's rank, shard here and sample at the rows' rank.
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
    """What vectors are rounded to before they travel; full: as they are computed."""

    forward: str = "full"  # of pooled vectors: full (as they are computed), float16 or bfloat16
    backward: str = "full"  # of their gradients: the same

    def __post_init__(self) -> None:
        for key, value in (("wire.forward", self.forward), ("wire.backward", self.backward)):
            require(value in PRECISIONS, key, value, " or ".join(PRECISIONS))


class Exchange:
    """Who sends what to whom, fixed by where the rows lie."""

    def __init__(
        self, shards: Sequence[Shard], copied: Sequence[int], num_tables: int, world: World, wire: WireConfig
    ) -> None:
        """`shards` are those of all ranks, by rank; `copied` are the tables that every rank has."""
        self.rank, self.wire, self._routes = world.rank, wire, _routes(shards)
        self.num_shards = [sum(shard.rank == rank for shard in shards) for rank in range(world.size)]
        tables = [*(shard.table for shard in shards), *copied]  # of all vectors of a sample, in the order they come in
        self._tables, self._num_tables = torch.tensor(tables, device=world.device), num_tables
        self._in_order = self._tables.argsort() if sorted(tables) == list(range(num_tables)) else None

    def begin(self, loaded: Loaded) -> Sent:
        """Send off what is to be looked up."""
        lengths, rows = _routed(loaded.batch, self._routes)
        return Sent(lengths, rows, self._num_bags(loaded))

    def pooled(self, bags: Tensor, loaded: Loaded) -> Travelling:
        """Send off the vectors of all samples' bags here (G, D); those of the samples here will arrive (S · B, D)."""
        to_send, to_receive = self._num_bags(loaded)
        return Travelling(bags, to_receive, to_send, PRECISIONS[self.wire.forward])

    def gradients(self, gradient: Tensor, loaded: Loaded) -> Travelling:
        """The same way back: send off (S · B, D), and (G, D) will arrive.

        That of the mean over a batch is too small for half precision, that of the sum is not.
        """
        to_send, to_receive = self._num_bags(loaded)
        return Travelling(gradient, to_send, to_receive, PRECISIONS[self.wire.backward], float(loaded.global_batch))

    def joined(self, of_shards: Tensor, of_copied: Tensor) -> Tensor:
        """All vectors of the samples here, by table: (S · B, D) and (E · B, D) → (F, B, D). Those of a table whose rows
        are spread are added up."""
        vectors = torch.cat([of_shards, of_copied]) if len(of_copied) else of_shards
        vectors = vectors.view(len(self._tables), -1, of_shards.shape[1])
        if self._in_order is not None:
            return vectors.index_select(0, self._in_order)  # copies whole rows, four times as fast as vectors[…]
        return vectors.new_zeros(self._num_tables, *vectors.shape[1:]).index_add_(0, self._tables, vectors)

    def parted(self, gradient: Tensor) -> tuple[Tensor, Tensor]:
        """The same way back: (F, B, D) → (S · B, D) and (E · B, D)."""
        vectors = gradient.index_select(0, self._tables)
        return vectors[: len(self._routes)].flatten(0, 1), vectors[len(self._routes) :].flatten(0, 1)

    def _num_bags(self, loaded: Loaded) -> tuple[list[int], list[int]]:
        """Of the samples here by the rank of their rows, and in the rows here by the rank of their samples."""
        samples = self._num_samples(loaded)
        here = self.num_shards[self.rank]
        return [shards * samples[self.rank] for shards in self.num_shards], [here * number for number in samples]

    def _num_samples(self, loaded: Loaded) -> list[int]:
        return [share.size for share in shares(loaded.global_batch, len(self.num_shards))]


class Sent:
    """A batch on its way: first how many ids are in each bag, then the ids, as rows where they lie."""

    def __init__(self, lengths: Tensor, rows: Tensor, num_bags: tuple[list[int], list[int]]) -> None:
        """Lengths of the samples' bags (S · B,) and their rows (N,); bags to send and to receive, by rank."""
        to_send, self._to_receive = num_bags
        self._rows, self._num_sent = rows, _summed(lengths, to_send)
        self._lengths = Travelling(lengths, to_send, self._to_receive)
        self._travelling: Travelling | None = None
        self._here = lengths

    def send_rows(self) -> None:
        """Once the lengths are here: how many rows will come is known by them alone."""
        if self._travelling is None:
            self._here = self._lengths.arrive()
            self._travelling = Travelling(self._rows, self._num_sent, _summed(self._here, self._to_receive))

    def arrive(self) -> Bags:
        """What all ranks look up in the rows here."""
        self.send_rows()
        assert self._travelling is not None
        return Bags(self._travelling.arrive(), self._here)


class Travelling:
    """Some tensor, split along its first dimension among the ranks; what they sent will arrive, joined by sender."""

    def __init__(
        self,
        mine: Tensor,
        to_send: list[int],
        to_receive: list[int],
        precision: torch.dtype | None = None,
        scale: float = 1.0,
    ) -> None:
        self._dtype, self._scale, self._rounded = mine.dtype, scale, precision is not None
        self._mine = (mine * scale).to(precision) if precision else mine.contiguous()  # kept until it has gone
        self._theirs = self._mine.new_empty(sum(to_receive), *mine.shape[1:])
        self._work = dist.all_to_all_single(self._theirs, self._mine, to_receive, to_send, async_op=True)

    def arrive(self) -> Tensor:
        """Wait for it."""
        self._work.wait()
        return self._theirs.to(self._dtype) / self._scale if self._rounded else self._theirs


class _Route(NamedTuple):
    """Where the ids of a shard go."""

    shard: Shard
    shift: int  # from an id to its row in the one weight that holds all shards of a rank
    part: bool  # of a table: the other ids go elsewhere


def _routes(shards: Sequence[Shard]) -> list[_Route]:
    shards_of_table = Counter(shard.table for shard in shards)
    begins: Counter[int] = Counter()  # by rank: rows of the shards so far
    routes = []
    for shard in shards:
        routes.append(_Route(shard, begins[shard.rank] - shard.first_row, shards_of_table[shard.table] > 1))
        begins[shard.rank] += shard.num_rows
    return routes


def _summed(lengths: Tensor, num_bags: list[int]) -> list[int]:
    """Rows of so many bags on end, for each rank."""
    sums: list[int] = torch.stack([bags.sum() for bags in lengths.split(num_bags)]).tolist()
    return sums


def _routed(batch: Batch, routes: Sequence[_Route]) -> tuple[Tensor, Tensor]:
    """Lengths of all bags (S · B,) and their rows (N,), both 32 bits, by shard; an id goes where its row lies."""
    ids = batch.ids.to(torch.int32)
    ids_of_table = ids.split(batch.lengths.sum(dim=1).tolist())
    lengths_of_table = batch.lengths.to(torch.int32)
    lengths, rows = [lengths_of_table.new_empty(0)], [ids.new_empty(0)]
    for shard, shift, part in routes:
        here, bags = ids_of_table[shard.table], lengths_of_table[shard.table]
        if part:
            inside = (here >= shard.first_row) & (here < shard.first_row + shard.num_rows)
            here, bags = here[inside], _still_there(bags, inside)
        lengths.append(bags)
        rows.append(here + shift)
    return torch.cat(lengths), torch.cat(rows)


def _still_there(lengths: Tensor, inside: Tensor) -> Tensor:
    """Lengths of bags of which only some ids are left."""
    bag = torch.arange(len(lengths), device=lengths.device).repeat_interleave(lengths, output_size=len(inside))
    return torch.bincount(bag[inside], minlength=len(lengths)).to(lengths.dtype)
