"""One synchronous training step, from top to bottom.

Every rank holds its slice of the global batch, a copy of the dense layers, the table shards that the plan assigns to
it, and a copy of the replicated tables. Loss and gradients are means over the global batch, so the result does not
depend on the number of ranks, except for rounding.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

import zmon
from trainer.all_to_all import AllToAll
from trainer.batch import StepBatch
from trainer.config import DTYPES, Config
from trainer.dense import DenseModel
from trainer.errors import DataError
from trainer.exchange import Exchange
from trainer.flat import FlatParameters
from trainer.id_exchange import IdExchange
from trainer.kernel import Bags
from trainer.optimizers import DenseOptimizer
from trainer.registry import KINDS, MOMENTS, Moments
from trainer.replicated import ReplicatedTables
from trainer.sharding import Merge, Placement, shards_of
from trainer.tables import ShardedTables
from trainer.work import StepWork
from trainer.world import World


class Sums(NamedTuple):
    """Sums over the samples of all ranks. They are all-reduced together with the gradients."""

    log_loss: float
    labels: float
    predictions: float  # probabilities, not logits
    must_stop: float  # the number of ranks that must stop; above 0 all ranks must stop


class SumsInFlight:
    """The sums of a step, which a GPU may still compute. The CPU waits for them only when it reads them."""

    def __init__(self, sums: Tensor) -> None:
        self._ready = torch.cuda.Event() if sums.is_cuda else None
        self._sums = torch.empty(sums.shape, dtype=sums.dtype, pin_memory=sums.is_cuda)
        self._sums.copy_(sums, non_blocking=True)
        if self._ready is not None:
            self._ready.record()

    def numbers(self) -> Sums:
        """Wait until the sums are computed, and return them."""
        if self._ready is not None:
            self._ready.synchronize()
        return Sums(*self._sums.tolist())


@dataclass(frozen=True)
class StepResult:
    """The result of one training step."""

    step: int
    samples: int  # samples of all ranks
    sums: SumsInFlight
    fault: DataError | None  # why this rank could not use its samples; then all ranks must stop


@dataclass(frozen=True)
class NextBatch:
    """The batch that the next step trains on."""

    step_batch: StepBatch
    ids: IdExchange | None = None  # its ids, if this rank has begun to send them


class Trainer:
    """The parameters of one rank and the training step."""

    def __init__(self, config: Config, world: World, placements: Sequence[Placement]) -> None:
        embedding, optimizer, seed = config.embedding, config.optimizer, config.train.seed
        dims, device = embedding.dims, world.device
        self.config = config
        self.world = world
        self.placements = placements
        self.dtype = DTYPES[config.train.dtype]
        self.shards = shards_of(placements, KINDS, embedding.rows, dims)  # of all ranks
        replicated = [table for table, placement in enumerate(placements) if KINDS[placement.kind].replicated]
        moments: Moments | None = None
        if optimizer.shares_moments and any(shard.merge is Merge.COLUMNS for shard in self.shards):
            moments = MOMENTS[Merge.COLUMNS](self.shards, dims, world, self.dtype)
        self.exchange = Exchange(self.shards, replicated, dims, world, config.wire, self.dtype)
        self.tables = ShardedTables(embedding, optimizer, self.exchange.groups, moments, seed, self.dtype, device)
        self.replicated = ReplicatedTables(embedding, optimizer, replicated, seed, self.dtype, device)
        self.model = DenseModel(config.model, dims, seed, self.dtype).to(device)
        self.flat = FlatParameters(self.model, len(Sums._fields), self.replicated.num_weights, config.overlap)
        self.optimizer = DenseOptimizer(optimizer, self.flat.parameter)
        self.work = StepWork(config, self.model, device)
        self._uses_autocast = config.train.computes_in_bfloat16(device.type)

    def step(
        self, batch: NextBatch, rate_factor: float, batches: Iterator[StepBatch], must_stop: bool = False
    ) -> tuple[StepResult, NextBatch | None]:
        """Train on a batch and load the next one. Return the result, and the next batch or None after the last one.

        All learning rates are multiplied by `rate_factor`. `must_stop` tells all ranks that they must stop.
        Shapes: B samples of this rank, F features, D columns; G bags of all ranks looked up in a group of local shards.
        The phase `embedding` has the lookups and the sending of pooled vectors. The update of the tables belongs to the
        phase `optimizer`, like every other update.
        """
        overlap, optimizer = self.config.overlap, self.config.optimizer
        step_batch, samples = batch.step_batch, batch.step_batch.batch
        table_rate = rate_factor * optimizer.embedding_learning_rate
        with zmon.step(step_batch.step + 1):
            zmon.phase("data")
            next_batch = self.load(batches)

            zmon.phase("embedding")
            bags = (batch.ids or self.exchange.send_ids(step_batch)).wait()  # G bags of each group
            if next_batch and overlap.ids:  # in flight while this batch is computed
                next_batch = replace(next_batch, ids=self.exchange.send_ids(next_batch.step_batch))
            self.tables.begin(step_batch.step, table_rate)
            vectors = self.tables.lookup(bags)
            pooled_exchange = self.exchange.send_pooled(vectors, step_batch)
            replicated_bags = self.replicated.bags(samples)
            replicated_vectors = self.replicated.lookup(replicated_bags)
            if not overlap.pooled:
                pooled_exchange.wait()

            zmon.phase("forward")
            with torch.autocast(self.world.device.type, torch.bfloat16, enabled=self._uses_autocast):
                bottom = self.model.bottom(samples.dense.to(self.dtype))  # while the pooled vectors are in flight
                pooled = self.exchange.merge(pooled_exchange, replicated_vectors).requires_grad_()  # (F, B, D)
                logits = self.model.top(bottom, self.exchange.arrivals.by_sample(pooled))
            labels, logits = samples.labels.to(self.dtype), logits.to(self.dtype)
            log_loss = F.binary_cross_entropy_with_logits(logits, labels, reduction="sum")
            if next_batch and next_batch.ids:
                next_batch.ids.send_rows()
                if self.tables.on_disk:
                    self.tables.prefetch(next_batch.ids.wait())  # read while this batch is computed

            zmon.phase("backward")
            must_stop = must_stop or samples.fault is not None
            self.flat.begin(_sums(logits.detach(), labels, log_loss.detach(), must_stop))
            pooled_gradients = PooledGradients(self, pooled, replicated_bags, step_batch)
            (log_loss / step_batch.global_batch).backward()  # sends each gradient as soon as it is ready

            zmon.phase("optimizer")
            self.tables.update(bags, pooled_gradients.wait(), table_rate)
            self.flat.wait()
            self.replicated.update(self.flat.replicated, table_rate)
            self.optimizer.step(rate_factor * optimizer.dense_learning_rate)
            self._report_work(len(labels), bags, replicated_bags)
        sums = SumsInFlight(self.flat.sums)
        return StepResult(step_batch.step, step_batch.global_batch, sums, samples.fault), next_batch

    def _report_work(self, samples: int, bags: Sequence[Bags], replicated_bags: Mapping[int, Bags]) -> None:
        """Tell zmon the work of this step on this rank, given the bags of each group, and of replicated tables."""
        widths = [*(group.width for group in self.exchange.groups), *replicated_bags]
        lookups = [len(same_width.rows) for same_width in (*bags, *replicated_bags.values())]
        num_elements = sum(width * num_rows for width, num_rows in zip(widths, lookups, strict=True))
        flops, traffic = self.work.flops(samples), self.work.memory_traffic(samples, sum(lookups), num_elements)
        zmon.work(samples=samples, lookups=sum(lookups), flops=flops, memory_traffic=traffic, dtype=self.work.dtype)

    def load(self, batches: Iterator[StepBatch]) -> NextBatch | None:
        """Load the batch that the next step trains on. Return None after the last batch."""
        step_batch = next(batches, None)
        return NextBatch(self._to_device(step_batch)) if step_batch else None

    def predict(self, step_batch: StepBatch) -> Tensor:
        """Return the logits (B,) of a batch without training on it. All ranks must call it together."""
        step_batch = self._to_device(step_batch)
        with torch.no_grad():
            vectors = self.tables.lookup(self.exchange.send_ids(step_batch).wait())
            pooled_exchange = self.exchange.send_pooled(vectors, step_batch)
            replicated_vectors = self.replicated.lookup(self.replicated.bags(step_batch.batch))
            with torch.autocast(self.world.device.type, torch.bfloat16, enabled=self._uses_autocast):
                bottom = self.model.bottom(step_batch.batch.dense.to(self.dtype))
                pooled = self.exchange.merge(pooled_exchange, replicated_vectors)
                return self.model.top(bottom, self.exchange.arrivals.by_sample(pooled)).to(self.dtype)

    def _to_device(self, step_batch: StepBatch) -> StepBatch:
        return replace(step_batch, batch=step_batch.batch.to(self.world.device))


def _sums(logits: Tensor, labels: Tensor, log_loss: Tensor, must_stop: bool) -> Tensor:
    """Return the sums of this rank in the order of `Sums` (4,)."""
    return torch.stack([log_loss, labels.sum(), logits.sigmoid().sum(), labels.new_full((), float(must_stop))])


class PooledGradients:
    """The gradients of the pooled vectors, sent to the shards as soon as backward has computed them."""

    def __init__(self, trainer: Trainer, pooled: Tensor, replicated_bags: dict[int, Bags], batch: StepBatch) -> None:
        self._trainer = trainer
        self._pooled = pooled
        self._replicated_bags = replicated_bags
        self._batch = batch
        self._sent: AllToAll | None = None
        self._hook = pooled.register_post_accumulate_grad_hook(self._send) if trainer.config.overlap.gradients else None

    def wait(self) -> list[Tensor]:
        """Wait for the gradients of the pooled vectors. Return those (G, D) of each group of local shards."""
        if self._hook:
            self._hook.remove()  # the hook and the tensor refer to each other: a cycle that is never collected
        if self._sent is None:
            self._send(self._pooled)
        assert self._sent is not None
        return self._trainer.exchange.by_group(self._sent, self._batch)

    def _send(self, pooled: Tensor) -> None:
        exchange, flat = self._trainer.exchange, self._trainer.flat
        assert pooled.grad is not None
        sharded, replicated = exchange.arrivals.split(pooled.grad)
        self._sent = exchange.send_gradients(sharded, self._batch)
        self._trainer.replicated.write_gradient(self._replicated_bags, replicated, flat.replicated)
        flat.replicated_ready()
