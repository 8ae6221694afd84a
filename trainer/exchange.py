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

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from trainer.batch import shares, to_device
from trainer.embedding import Bags
from trainer.errors import require
from trainer.loader import Loaded
from trainer.routing import Routed, Router
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
        self.rank, self.wire, self._router = world.rank, wire, Router(shards, world.size)
        self._num_sharded, self._device = len(shards), world.device
        self._begins = self._router.begins(world.rank)
        # A GPU must not wait for the sizes of its all-to-alls, so the CPUs exchange them.
        self._cpus = dist.new_group(backend="gloo") if world.device.type == "cuda" else None
        self.num_shards = [sum(shard.rank == rank for shard in shards) for rank in range(world.size)]
        tables = [*(shard.table for shard in shards), *replicated]  # the table of each vector, in the order received
        self._tables, self._num_tables = torch.tensor(tables, device=world.device), num_tables
        self._in_order = self._tables.argsort() if sorted(tables) == list(range(num_tables)) else None

    def send_ids(self, loaded: Loaded) -> IdExchange:
        """Start to send the ids of a batch to the ranks that hold their rows."""
        routed, (to_send, to_receive) = self._router.route(loaded.batch), self._num_bags(loaded)
        begins = None if self._begins is None else self._begins_of_bags(self._begins, loaded)
        return IdExchange(routed, to_send, to_receive, begins, self._device, self._cpus)

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
        return vectors[: self._num_sharded].flatten(0, 1), vectors[self._num_sharded :].flatten(0, 1)

    def _begins_of_bags(self, begins: Tensor, loaded: Loaded) -> Tensor:
        """Return the begin (G,) of the local shard of each bag to receive."""
        samples = [share.size for share in shares(loaded.global_batch, len(self.num_shards))]
        return to_device(torch.cat([begins.repeat_interleave(number) for number in samples]), self._device)

    def _num_bags(self, loaded: Loaded) -> tuple[list[int], list[int]]:
        """Count the bags to send to each rank, and the bags to receive from each rank."""
        samples = [share.size for share in shares(loaded.global_batch, len(self.num_shards))]
        local_shards = self.num_shards[self.rank]
        to_send = [shards * samples[self.rank] for shards in self.num_shards]
        return to_send, [local_shards * number for number in samples]


class IdExchange:
    """The ids of a batch in flight: first the number of ids in each bag, then the ids, as rows of the local weight."""

    def __init__(
        self,
        routed: Routed,
        to_send: list[int],
        to_receive: list[int],
        begins: Tensor | None,
        device: torch.device,
        cpus: dist.ProcessGroup | None,
    ) -> None:
        """`to_send` and `to_receive` are numbers of bags by rank. `begins` (G,) are to be added to the rows of bags.

        `cpus` is the group that exchanges the numbers of rows. Without it they are sums of the lengths received.
        """
        self._num_rows, self._to_receive, self._begins = routed.num_rows, to_receive, begins
        self._rows = to_device(routed.rows, device)
        one_each = [1] * len(to_send)
        self._numbers = AllToAll(routed.num_rows, one_each, one_each, group=cpus) if cpus is not None else None
        self._lengths_exchange = AllToAll(to_device(routed.lengths, device), to_send, to_receive)
        self._rows_exchange: AllToAll | None = None
        self._lengths = routed.lengths

    def send_rows(self) -> None:
        """Wait for the numbers of rows to receive. Then start to send the rows."""
        if self._rows_exchange is None:
            self._lengths = self._lengths_exchange.wait()
            numbers = _sums(self._lengths, self._to_receive) if self._numbers is None else self._numbers.wait()
            self._rows_exchange = AllToAll(self._rows, self._num_rows.tolist(), numbers.tolist())

    def wait(self) -> Bags:
        """Wait for the bags that all ranks look up in the local shards."""
        self.send_rows()
        assert self._rows_exchange is not None
        bags = Bags(self._rows_exchange.wait(), self._lengths)
        return bags if self._begins is None else bags.moved(self._begins)


def _sums(lengths: Tensor, num_bags: list[int]) -> Tensor:
    """Sum the lengths of the bags of each rank; `num_bags` has the number of bags of each rank."""
    return torch.stack([bags.sum() for bags in lengths.split(num_bags)])


class AllToAll:
    """An asynchronous all-to-all of a tensor that is split along its first dimension."""

    def __init__(
        self,
        tensor: Tensor,
        to_send: list[int],
        to_receive: list[int],
        precision: torch.dtype | None = None,
        scale: float = 1.0,
        group: dist.ProcessGroup | None = None,
    ) -> None:
        self._dtype, self._scale, self._rounded = tensor.dtype, scale, precision is not None
        # The input must live until it is sent.
        self._input = _rounded(tensor * scale, precision) if precision else tensor.contiguous()
        self._output = self._input.new_empty(sum(to_receive), *tensor.shape[1:])
        self._work = dist.all_to_all_single(self._output, self._input, to_receive, to_send, group, async_op=True)

    def wait(self) -> Tensor:
        """Wait for the data of all ranks and return it, ordered by sender."""
        self._work.wait()
        return self._output.to(self._dtype) / self._scale if self._rounded else self._output


def _rounded(values: Tensor, precision: torch.dtype) -> Tensor:
    """Round to a precision. A finite value that is too large becomes the largest finite one; infinity and NaN stay."""
    most = torch.finfo(precision).max
    return torch.where(values.isinf(), values, values.clamp(-most, most)).to(precision)
