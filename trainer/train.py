"""One synchronous training step, top to bottom.

Every rank holds a slice of the global batch, a copy of the dense layers, the rows that the plan gives it, and a copy of
the replicated tables. Loss and gradients are means over the global batch, so the result does not depend on the number
of ranks, but for rounding.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

import zmon
from trainer.config import DTYPES, Config
from trainer.embedding import Bags, Replicated, Tables
from trainer.exchange import Exchange, Sent, Travelling
from trainer.loader import Loaded
from trainer.model import DenseModel, Flat
from trainer.optimizers import DenseOptimizer
from trainer.schedule import rate_factor
from trainer.sharding import KINDS, Plan
from trainer.sharding.plan import shards_of
from trainer.world import World

NUM_SUMS = 4  # that ride along: log-loss, labels, predictions, ranks in trouble


@dataclass(frozen=True)
class Stepped:
    """What is known of a step that was made."""

    step: int
    samples: int  # over all ranks
    sums: Tensor  # (4,) over all ranks: log-loss, labels, predictions, ranks in trouble; a GPU may compute them yet


class Trainer:
    """What this rank trains, and how it steps."""

    def __init__(self, config: Config, world: World, plan: Plan) -> None:
        self.config, self.world, self.plan = config, world, plan
        self.dtype = DTYPES[config.train.dtype]
        rows, dim, seed = config.embedding.rows, config.embedding.dim, config.train.seed
        shards = shards_of(plan, KINDS, rows)
        here = [shard for shard in shards if shard.rank == world.rank]
        copied = [table for table, placed in enumerate(plan.tables) if KINDS[placed.kind].replicated]
        self.exchange = Exchange(shards, copied, len(rows), world, config.wire)
        self.tables = Tables(config.embedding, config.optimizer, here, seed, self.dtype, world.device)
        self.replicated = Replicated(config.embedding, config.optimizer, copied, seed, self.dtype, world.device)
        self.model = DenseModel(config.model, len(rows), dim, seed, self.dtype).to(world.device)
        self.flat = Flat(self.model, NUM_SUMS, self.replicated.weight.shape, config.overlap)
        self.optimizer = DenseOptimizer(config.optimizer, self.flat.parameter)
        self.next: Loaded | None = None  # the batch that the next step trains on
        self.sent: Sent | None = None  # the same, if its ids are on their way
        self.in_trouble = False  # beside the steps, where all ranks have to stop for it; told to all with the next one

    def step(self, batches: Iterator[Loaded]) -> Stepped:
        """Train on the batch taken before, and take the next one.

        Shapes: B samples here, F features, D columns; G bags of all ranks in the rows here, S shards of all ranks.
        The phase `embedding` is the way to pooled vectors; the tables' update is `optimizer`, like any other.
        """
        overlap, optimizer = self.config.overlap, self.config.optimizer
        with zmon.step():
            zmon.phase("data")
            now, sent = self.next, self.sent
            assert now is not None
            self.take(batches)

            zmon.phase("embedding")
            sent = sent or self.exchange.begin(now)
            here = sent.arrive()  # G bags
            if overlap.ids:
                self.send()  # the next batch's, which travel while this one is computed
            travelling = self.exchange.pooled(self.tables.lookup(here), now)
            copied = self.replicated.bags(now.batch)
            vectors = self.replicated.lookup(copied)
            if not overlap.pooled:
                travelling.arrive()

            zmon.phase("forward")
            with self.world.autocast(self.config.train.autocast):
                bottom = self.model.bottom(now.batch.dense.to(self.dtype))  # while the vectors travel
                pooled = self.exchange.joined(travelling.arrive(), vectors).requires_grad_()  # (F, B, D)
                logits = self.model.top(bottom, pooled.transpose(0, 1))
            labels, logits = now.batch.labels.to(self.dtype), logits.to(self.dtype)
            log_loss = F.binary_cross_entropy_with_logits(logits, labels, reduction="sum")
            if self.sent is not None:
                self.sent.send_rows()

            zmon.phase("backward")
            self.flat.begin(self.sums(logits.detach(), labels, log_loss.detach()))
            returning = Returning(self, pooled, copied, now)
            (log_loss / now.global_batch).backward()  # what is made is sent off, layer by layer

            zmon.phase("optimizer")
            rate = rate_factor(self.config.schedule, now.step)
            self.tables.update(here, returning.arrive(), rate * optimizer.embedding_learning_rate)
            self.flat.arrive()
            self.replicated.update(self.flat.replicated, rate * optimizer.embedding_learning_rate)
            self.optimizer.step(rate * optimizer.dense_learning_rate)
            zmon.work(samples=len(labels), lookups=len(here.rows) + len(copied.rows))
        return Stepped(now.step, now.global_batch, self.flat.sums.clone())

    def sums(self, logits: Tensor, labels: Tensor, log_loss: Tensor) -> Tensor:
        """What rides along with the gradients."""
        trouble = labels.new_tensor(float(self.in_trouble))
        return torch.stack([log_loss, labels.sum(), logits.sigmoid().sum(), trouble])

    def take(self, batches: Iterator[Loaded]) -> None:
        """The batch that the next step trains on, if there is another."""
        loaded = next(batches, None)
        self.next = loaded and self._here(loaded)
        self.sent = None

    def send(self) -> None:
        """Its ids, to where their rows are."""
        self.sent = self.exchange.begin(self.next) if self.next else None

    def predict(self, loaded: Loaded) -> Tensor:
        """Logits (B,) of some samples; all ranks must ask."""
        loaded = self._here(loaded)
        with torch.no_grad():
            here = self.exchange.begin(loaded).arrive()
            travelling = self.exchange.pooled(self.tables.lookup(here), loaded)
            vectors = self.replicated.lookup(self.replicated.bags(loaded.batch))
            with self.world.autocast(self.config.train.autocast):
                bottom = self.model.bottom(loaded.batch.dense.to(self.dtype))
                pooled = self.exchange.joined(travelling.arrive(), vectors)
                return self.model.top(bottom, pooled.transpose(0, 1)).to(self.dtype)

    def _here(self, loaded: Loaded) -> Loaded:
        return replace(loaded, batch=loaded.batch.to(self.world.device))


class Returning:
    """The gradients of the pooled vectors: back to the shards that the vectors came from, as soon as they are made."""

    def __init__(self, trainer: Trainer, pooled: Tensor, copied: Bags, now: Loaded) -> None:
        self._trainer, self._pooled, self._copied, self._now = trainer, pooled, copied, now
        self._travelling: Travelling | None = None
        self._hook = pooled.register_post_accumulate_grad_hook(self._send) if trainer.config.overlap.gradients else None

    def arrive(self) -> Tensor:
        """(G, D) of the bags here."""
        if self._hook:
            self._hook.remove()  # it holds this, and this the tensor that has it: nobody would collect them
        if self._travelling is None:
            self._send(self._pooled)
        assert self._travelling is not None
        return self._travelling.arrive()

    def _send(self, pooled: Tensor) -> None:
        exchange, flat = self._trainer.exchange, self._trainer.flat
        assert pooled.grad is not None
        of_shards, of_copied = exchange.parted(pooled.grad)
        self._travelling = exchange.gradients(of_shards, self._now)
        self._trainer.replicated.gradient(self._copied, of_copied, flat.replicated)
        flat.made_replicated()
