"""Sums inside a host: its ranks add up their parts of a vector, so that one vector leaves the host.

The ranks with the same position on their hosts are a *rail*. A rank of the host adds up the vectors for the samples of
its rail, and exchanges them with the ranks of its rail only. Inside a host vectors keep full precision.

Shapes: N samples of all ranks, M samples of a rail, U tables on this host, D columns.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from trainer.all_to_all import AllToAll
from trainer.sharding import Merge, Shard
from trainer.world import World


class HostReduction:
    """The ranks of this host. All ranks of the job must create it together."""

    def __init__(self, shards: Sequence[Shard], world: World) -> None:
        """`shards` are the shards of all ranks, some of them with `Merge.HOST`."""
        tables = [shard.table for shard in shards if shard.merge is Merge.HOST]
        self._ranks_of_host = tables.count(tables[0])
        self._group, _ = dist.new_subgroups(self._ranks_of_host)
        self._rails = [range(first, world.size, self._ranks_of_host) for first in range(self._ranks_of_host)]
        self._position = world.rank % self._ranks_of_host

    def is_partner(self, shard: Shard, rank: int) -> bool:
        """Return True if the rank of a shard and `rank` are on one rail."""
        return shard.rank % self._ranks_of_host == rank % self._ranks_of_host

    def reduce(self, vectors: Tensor, num_tables: int, samples: Sequence[int]) -> Tensor:
        """Add up the vectors of this host for the samples of the rail: (N · U, D) → (M · U, D)."""
        pieces = vectors.split([num_tables * size for size in samples])  # by rank of the samples
        to_send = torch.cat([pieces[rank] for rail in self._rails for rank in rail])
        sizes = self._sizes(num_tables, samples)
        local_size = sizes[self._position]
        received = AllToAll(to_send, sizes, [local_size] * len(sizes), group=self._group).wait()
        return received.view(len(sizes), local_size, vectors.shape[1]).sum(dim=0)

    def gather(self, gradient: Tensor, num_tables: int, samples: Sequence[int]) -> Tensor:
        """Return the gradients for the samples of all ranks: (M · U, D) → (N · U, D)."""
        sizes = self._sizes(num_tables, samples)
        to_send = gradient.repeat(len(sizes), 1)
        received = AllToAll(to_send, [len(gradient)] * len(sizes), sizes, group=self._group).wait()
        by_rail = [rank for rail in self._rails for rank in rail]
        pieces = received.split([num_tables * samples[rank] for rank in by_rail])
        piece_of = dict(zip(by_rail, pieces, strict=True))
        return torch.cat([piece_of[rank] for rank in sorted(by_rail)])

    def _sizes(self, num_tables: int, samples: Sequence[int]) -> list[int]:
        """Return the number of vectors of the samples of each rail."""
        return [num_tables * sum(samples[rank] for rank in rail) for rail in self._rails]
