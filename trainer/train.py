"""One synchronous training step, from top to bottom.

Every rank holds its slice of the global batch, a copy of the dense layers, the table shards that the plan assigns to
it, and a copy of the replicated tables. Loss and gradients are means over the global batch, so the result does not
depend on the number of ranks, except for rounding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

import zmon
from trainer.config import DTYPES, Config
from trainer.embedding import Bags, ColumnMoments, ReplicatedTables, ShardedTables
from trainer.errors import DataError
from trainer.exchange import Exchange, GradientExchange
from trainer.faults import raised_on_all_ranks
from trainer.id_exchange import IdExchange
from trainer.loader import Loaded
from trainer.model import DenseModel, FlatParameters
from trainer.optimizers import DenseOptimizer
from trainer.schedule import rate_factor
from trainer.sharding import KINDS, Plan
from trainer.sharding.kind import Merge
from trainer.sharding.plan import shards_of
from trainer.work import StepWork
from trainer.world import World

NUM_SUMS = 4  # sums that are all-reduced with the gradients: log-loss, labels, predictions, ranks that must stop


@dataclass(frozen=True)
class StepResult:
    """The result of one training step."""

    step: int
    samples: int  # samples of all ranks
    sums: Sums  # over all ranks: log-loss, labels, predictions, ranks that must stop


class Sums:
    """Some numbers that a GPU may still compute. The CPU waits for them only when it reads them."""

    def __init__(self, sums: Tensor) -> None:
        self._ready = torch.cuda.Event() if sums.is_cuda else None
        self._sums = torch.empty(sums.shape, dtype=sums.dtype, pin_memory=sums.is_cuda)
        self._sums.copy_(sums, non_blocking=True)
        if self._ready is not None:
            self._ready.record()

    def numbers(self) -> list[float]:
        """Return the numbers."""
        if self._ready is not None:
            self._ready.synchronize()
        numbers: list[float] = self._sums.tolist()
        return numbers


class Trainer:
    """The parameters of one rank and the training step."""

    def __init__(self, config: Config, world: World, plan: Plan) -> None:
        self.config, self.world, self.plan = config, world, plan
        self.dtype = DTYPES[config.train.dtype]
        embedding, seed, device = config.embedding, config.train.seed, world.device
        dims = embedding.dims
        self.shards = shards = shards_of(plan, KINDS, embedding.rows, dims)  # of all ranks
        replicated = [table for table, placement in enumerate(plan.tables) if KINDS[placement.kind].replicated]
        moments = None
        if config.optimizer.shares_moments and any(shard.merge is Merge.COLUMNS for shard in shards):
            moments = ColumnMoments(shards, dims, world.rank, world.size, self.dtype, device)
        self.exchange = Exchange(shards, replicated, dims, world, config.wire, self.dtype)
        with raised_on_all_ranks():  # the kernel may support the tables of some ranks only
            self.tables = ShardedTables(
                embedding, config.optimizer, self.exchange.groups, moments, seed, self.dtype, device
            )
            self.replicated = ReplicatedTables(embedding, config.optimizer, replicated, seed, self.dtype, device)
        self.model = DenseModel(config.model, dims, seed, self.dtype).to(device)
        self.flat = FlatParameters(self.model, NUM_SUMS, self.replicated.num_weights, config.overlap)
        self.optimizer = DenseOptimizer(config.optimizer, self.flat.parameter)
        self.work = StepWork(config, world.device)
        self.next_batch: Loaded | None = None  # the batch that the next step trains on
        self.next_ids: IdExchange | None = None  # its ids, if they are already in flight
        self.must_stop = False  # set by the caller if all ranks must stop; the next step sends it to every rank
        self.fault: DataError | None = None  # the first fault of this rank's samples; it stops all ranks, too

    def step(self, batches: Iterator[Loaded]) -> StepResult:
        """Train on the batch loaded before, and load the next one.

        Shapes: B samples of this rank, F features, D columns; G bags of all ranks looked up in a group of local shards.
        The phase `embedding` covers the lookups until pooled vectors are sent; the update of the tables belongs to the
        phase `optimizer`, like every other update.
        """
        overlap, optimizer = self.config.overlap, self.config.optimizer
        with zmon.step():
            zmon.phase("data")
            loaded, ids = self.next_batch, self.next_ids
            assert loaded is not None
            batch, self.fault = loaded.batch, self.fault or loaded.batch.fault
            self.load_next(batches)
            rate = rate_factor(self.config.schedule, loaded.step)

            zmon.phase("embedding")
            ids = ids or self.exchange.send_ids(loaded)
            bags = ids.wait()  # G bags of each group
            if overlap.ids:
                self.send_next_ids()  # in flight while this batch is computed
            vectors = self.tables.lookup(bags, rate * optimizer.embedding_learning_rate)
            pooled_exchange = self.exchange.send_pooled(vectors, loaded)
            replicated_bags = self.replicated.bags(batch)
            replicated_vectors = self.replicated.lookup(replicated_bags)
            if not overlap.pooled:
                pooled_exchange.wait()

            zmon.phase("forward")
            with self.world.autocast(self.config.train.autocast):
                bottom = self.model.bottom(batch.dense.to(self.dtype))  # while the pooled vectors are in flight
                pooled = self.exchange.merge(pooled_exchange, replicated_vectors).requires_grad_()  # (F, B, D)
                logits = self.model.top(bottom, self.exchange.by_sample(pooled))
            labels, logits = batch.labels.to(self.dtype), logits.to(self.dtype)
            log_loss = F.binary_cross_entropy_with_logits(logits, labels, reduction="sum")
            if self.next_ids is not None:
                self.next_ids.send_rows()

            zmon.phase("backward")
            self.flat.begin(self.sums(logits.detach(), labels, log_loss.detach()))
            pooled_gradients = PooledGradients(self, pooled, replicated_bags, loaded)
            (log_loss / loaded.global_batch).backward()  # sends each gradient as soon as it is ready

            zmon.phase("optimizer")
            self.tables.update(bags, pooled_gradients.wait(), rate * optimizer.embedding_learning_rate)
            self.flat.wait()
            self.replicated.update(self.flat.replicated, rate * optimizer.embedding_learning_rate)
            self.optimizer.step(rate * optimizer.dense_learning_rate)
            self._report_work(len(labels), bags, replicated_bags)
        return StepResult(loaded.step, loaded.global_batch, Sums(self.flat.sums))

    def _report_work(self, samples: int, bags: Sequence[Bags], replicated_bags: Mapping[int, Bags]) -> None:
        of_groups = [(group.width, len(each.rows)) for group, each in zip(self.exchange.groups, bags, strict=True)]
        looked_up = [*of_groups, *((width, len(each.rows)) for width, each in replicated_bags.items())]
        lookups, numbers = sum(rows for _, rows in looked_up), sum(width * rows for width, rows in looked_up)
        flops, traffic = self.work.flops(samples), self.work.memory_traffic(samples, lookups, numbers)
        zmon.work(samples=samples, lookups=lookups, flops=flops, memory_traffic=traffic, dtype=self.work.dtype)

    def sums(self, logits: Tensor, labels: Tensor, log_loss: Tensor) -> Tensor:
        """Return the sums (4,) of this rank that are all-reduced with the gradients."""
        must_stop = labels.new_full((), float(self.must_stop or self.fault is not None))
        return torch.stack([log_loss, labels.sum(), logits.sigmoid().sum(), must_stop])

    def load_next(self, batches: Iterator[Loaded]) -> None:
        """Load the batch that the next step trains on; `next_batch` is None after the last one."""
        loaded = next(batches, None)
        self.next_batch = loaded and self._to_device(loaded)
        self.next_ids = None

    def send_next_ids(self) -> None:
        """Send the ids of the next batch to the ranks that hold their rows."""
        self.next_ids = self.exchange.send_ids(self.next_batch) if self.next_batch else None

    def predict(self, loaded: Loaded) -> Tensor:
        """Return the logits (B,) of some samples; all ranks must call it together."""
        loaded = self._to_device(loaded)
        with torch.no_grad():
            bags = self.exchange.send_ids(loaded).wait()
            pooled_exchange = self.exchange.send_pooled(self.tables.lookup(bags), loaded)
            replicated_vectors = self.replicated.lookup(self.replicated.bags(loaded.batch))
            with self.world.autocast(self.config.train.autocast):
                bottom = self.model.bottom(loaded.batch.dense.to(self.dtype))
                pooled = self.exchange.merge(pooled_exchange, replicated_vectors)
                return self.model.top(bottom, self.exchange.by_sample(pooled)).to(self.dtype)

    def _to_device(self, loaded: Loaded) -> Loaded:
        return replace(loaded, batch=loaded.batch.to(self.world.device))


class PooledGradients:
    """The gradients of the pooled vectors, sent to the shards as soon as backward has computed them."""

    def __init__(self, trainer: Trainer, pooled: Tensor, replicated_bags: dict[int, Bags], loaded: Loaded) -> None:
        self._trainer, self._pooled, self._replicated_bags, self._loaded = trainer, pooled, replicated_bags, loaded
        self._exchange: GradientExchange | None = None
        self._hook = pooled.register_post_accumulate_grad_hook(self._send) if trainer.config.overlap.gradients else None

    def wait(self) -> list[Tensor]:
        """Wait for the gradients (G, D) of the bags that were looked up in each group of local shards."""
        if self._hook:
            self._hook.remove()  # the hook and the tensor refer to each other: a cycle that is never collected
        if self._exchange is None:
            self._send(self._pooled)
        assert self._exchange is not None
        return self._exchange.wait()

    def _send(self, pooled: Tensor) -> None:
        exchange, flat = self._trainer.exchange, self._trainer.flat
        assert pooled.grad is not None
        sharded, replicated = exchange.split(pooled.grad)
        self._exchange = exchange.send_gradients(sharded, self._loaded)
        self._trainer.replicated.gradient(self._replicated_bags, replicated, flat.replicated)
        flat.replicated_ready()
