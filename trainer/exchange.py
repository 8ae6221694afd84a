"""The all-to-alls between the rank that has a sample and the ranks that hold its embedding rows.

    ranks of the samples ── lengths, rows ────▶ ranks of the shards
    ranks of the samples ◀─ pooled vectors ──── ranks of the shards
    ranks of the samples ── their gradients ──▶ ranks of the shards

Each all-to-all is asynchronous, so that computation can overlap with it. In every step all ranks issue the same
all-to-alls in the same order. zmon hooks torch.distributed and needs no call here.

Shapes: R ranks, B samples of this rank, F features, D columns; G bags of all ranks looked up in a local group.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from trainer.all_to_all import PRECISIONS, AllToAll
from trainer.batch import StepBatch, shares, to_device
from trainer.errors import require
from trainer.id_exchange import IdExchange
from trainer.registry import HOST_SUMS
from trainer.routing import Router
from trainer.sharding import Group, Merge, Shard, groups_of
from trainer.vectors import Arrivals, ByWidth, Departures
from trainer.world import World


@dataclass(frozen=True)
class WireConfig:
    """The precision of vectors on the network."""

    forward: str = "full"  # precision of pooled vectors: full (that of the computation), float16 or bfloat16
    backward: str = "full"  # precision of the gradients of pooled vectors: full, float16 or bfloat16

    def __post_init__(self) -> None:
        for key, value in (("wire.forward", self.forward), ("wire.backward", self.backward)):
            require(value in PRECISIONS, key, value, " or ".join(PRECISIONS))


class Exchange:
    """The routes of ids, vectors and gradients between the ranks. They follow from the placement of the shards."""

    def __init__(
        self,
        shards: Sequence[Shard],
        replicated: Sequence[int],
        dims: Sequence[int],
        world: World,
        wire: WireConfig,
        dtype: torch.dtype,
    ) -> None:
        """`shards` are the shards of all ranks, ordered by `in_order`. Every rank has the `replicated` tables.

        `dims` are the columns of each table, `dtype` is the type of vectors. All ranks must create it together.
        """
        self.wire = wire
        self._world = world
        self._all_groups = groups_of(shards, world.size)  # of each rank
        self.groups = self._all_groups[world.rank]  # of this rank
        self._router = Router(shards)
        self._row_offsets = self._router.row_offsets(world.rank)
        # A GPU must not wait for the sizes of its all-to-alls, so the CPUs exchange them.
        self._cpu_ranks = dist.new_group(backend="gloo") if world.device.type == "cuda" else None
        needs_host_sums = any(shard.merge is Merge.HOST for shard in shards)
        self._host_sums = HOST_SUMS[Merge.HOST](shards, world) if needs_host_sums else None
        partners = [[rank for rank in range(world.size) if self._is_partner(group, rank)] for group in self.groups]
        self._departures = Departures(self.groups, partners)
        sources = [[group for group in groups if self._is_partner(group, world.rank)] for groups in self._all_groups]
        self.arrivals = Arrivals(sources, replicated, dims, world.device)
        self._no_vectors = torch.empty(0, dtype=dtype, device=world.device)

    def send_ids(self, step_batch: StepBatch) -> IdExchange:
        """Start to send the ids of a batch to the ranks that hold their rows."""
        routed, samples = self._router.route(step_batch.batch), self._samples(step_batch)
        row_offsets = None
        if self._row_offsets is not None:  # each bag to receive gets the offset of its local shard
            by_rank = [self._row_offsets.repeat_interleave(size) for size in samples]
            row_offsets = to_device(torch.cat(by_rank), self._world.device)
        return IdExchange(routed, self._all_groups, self._world, samples, row_offsets, self._cpu_ranks)

    def send_pooled(self, vectors: Sequence[Tensor], step_batch: StepBatch) -> AllToAll:
        """Start to send the pooled vectors (G, D) of each local group, for `merge` on the rank of the samples."""
        samples = self._samples(step_batch)
        if self._host_sums is not None:
            vectors = [
                self._host_sums.reduce(bag_sums, len(group.units), samples) if group.merge is Merge.HOST else bag_sums
                for group, bag_sums in zip(self.groups, vectors, strict=True)
            ]
        flat = self._departures.flatten(vectors, samples, self._no_vectors)
        to_receive = self.arrivals.sizes(samples[self._world.rank])
        return AllToAll(flat, self._departures.sizes(samples), to_receive, PRECISIONS[self.wire.forward])

    def merge(self, pooled: AllToAll, replicated: ByWidth) -> Tensor:
        """Wait for the pooled vectors. Return the vectors of all tables in order: (F, B, D), or (B, sum of all D)."""
        return self.arrivals.merge(pooled.wait(), replicated)

    def send_gradients(self, gradient: Tensor, step_batch: StepBatch) -> AllToAll:
        """Start to send the gradients of the pooled vectors to the ranks of the shards.

        They are multiplied by the global batch: the gradients of a mean over it are too small for half precision.
        """
        samples, precision = self._samples(step_batch), PRECISIONS[self.wire.backward]
        to_send, to_receive = self.arrivals.sizes(samples[self._world.rank]), self._departures.sizes(samples)
        return AllToAll(gradient, to_send, to_receive, precision, float(step_batch.global_batch))

    def by_group(self, gradients: AllToAll, step_batch: StepBatch) -> list[Tensor]:
        """Wait for the gradients of the pooled vectors. Return the gradients (G, D) of each local group."""
        samples = self._samples(step_batch)
        by_group = self._departures.by_group(gradients.wait(), samples)
        if self._host_sums is None:
            return by_group
        return [
            self._host_sums.gather(gradient, len(group.units), samples) if group.merge is Merge.HOST else gradient
            for group, gradient in zip(self.groups, by_group, strict=True)
        ]

    def _is_partner(self, group: Group, rank: int) -> bool:
        """Return True if a group exchanges vectors with the samples of a rank."""
        if self._host_sums is None or group.merge is not Merge.HOST:
            return True
        return self._host_sums.is_partner(group.shards[0], rank)

    def _samples(self, step_batch: StepBatch) -> list[int]:
        """Return the number of samples of each rank."""
        return [share.size for share in shares(step_batch.global_batch, self._world.size)]
