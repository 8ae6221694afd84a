"""One synchronous training step, top to bottom, and the loop around it.

Every rank holds a slice of the global batch, a copy of the dense layers and some whole embedding tables.
Loss and gradients are means over the global batch, so the result does not depend on the number of ranks,
but for rounding.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count

import torch
import torch.distributed as dist
import torch.nn.functional as F

import zmon
from trainer import criteo
from trainer.batch import Source
from trainer.criteo import Criteo, CriteoConfig
from trainer.embedding import EmbeddingConfig, Tables, place
from trainer.errors import WorldError, require
from trainer.exchange import Exchange
from trainer.model import DenseModel, ModelConfig
from trainer.progress import Progress
from trainer.synthetic import Synthetic, SyntheticConfig
from trainer.world import World

DTYPES = {"float32": torch.float32, "float64": torch.float64}


@dataclass(frozen=True)
class TrainConfig:
    steps: int = 0  # 0: until stopped
    global_batch: int = 512  # samples of a step over all ranks
    dtype: str = "float32"
    seed: int = 1  # of initial weights and synthetic samples
    progress_every: int = 50  # steps between two lines

    def __post_init__(self) -> None:
        require(self.steps >= 0, "train.steps", self.steps, "0 (until stopped) or more")
        require(self.global_batch > 0, "train.global_batch", self.global_batch, "1 or more")
        require(self.dtype in DTYPES, "train.dtype", self.dtype, " or ".join(DTYPES))
        require(0 <= self.seed < 2**63, "train.seed", self.seed, "0 or more, and below 2^63")
        require(self.progress_every > 0, "train.progress_every", self.progress_every, "1 or more")


@dataclass(frozen=True)
class Config:
    """All that decides a run, but for the number of ranks."""

    train: TrainConfig
    model: ModelConfig
    embedding: EmbeddingConfig
    synthetic: SyntheticConfig
    criteo: CriteoConfig

    def __post_init__(self) -> None:
        if self.criteo.file:
            dense, tables = self.model.dense_features, len(self.embedding.rows)
            require(dense == criteo.DENSE_FEATURES, "model.dense_features", dense, "13 to train on Criteo rows")
            require(tables == criteo.SPARSE_FEATURES, "embedding.rows", f"{tables} tables", "26 for Criteo rows")


def check(config: Config, world: World) -> None:
    """Refuse what cannot train, on every rank alike and before any of them waits for another."""
    if config.train.global_batch % world.size:
        raise WorldError(
            f"a global batch of {config.train.global_batch} does not divide by {world.size} ranks",
            "every rank takes an equal share of the samples",
            "Start another number of ranks, or change it with --set train.global_batch=…",
        )
    place(config.embedding.rows, world.size)
    if config.criteo.file:
        criteo.check_file(config.criteo.file)


class Trainer:
    """What this rank trains: its source of samples, its copy of the dense layers, its tables."""

    def __init__(self, config: Config, world: World) -> None:
        self.config, self.world = config, world
        self.local_batch = config.train.global_batch // world.size
        self.placement = place(config.embedding.rows, world.size)
        self.dtype, seed = DTYPES[config.train.dtype], config.train.seed
        self.source = _open_source(config, world)
        self.exchange = Exchange(self.placement, world.rank, self.local_batch)
        self.tables = Tables(config.embedding, self.placement[world.rank], seed, self.dtype)
        self.dense = DenseModel(config.model, len(config.embedding.rows), config.embedding.dim, seed, self.dtype)
        self.optimizer = torch.optim.Adagrad(self.dense.parameters(), lr=config.model.learning_rate, eps=1e-8)

    def step(self, number: int) -> tuple[float, float]:
        """Train on the global batch of this number; returns its log-loss and its mean label.

        The group must have been joined. Shapes: B samples here, F features, D columns, R ranks, T tables here.
        The phase `embedding` is the way to pooled vectors; the tables' update is `optimizer`, like any other.
        """
        with zmon.step():
            zmon.phase("data")
            batch = self.source.batch(number, self.world.rank * self.local_batch, self.local_batch)
            dense, labels = batch.dense.to(self.dtype), batch.labels.to(self.dtype)

            zmon.phase("embedding")
            ids, lengths = self.exchange.ids(batch)  # (N,) and (R, T, B): what all ranks look up in the tables here
            rows = self.tables.rows_of(ids, lengths)
            pooled_here = self.tables.lookup(rows, lengths)  # (R·T·B, D)
            pooled = self.exchange.pooled(pooled_here).requires_grad_()  # (B, F, D): all tables for the samples here

            zmon.phase("forward")
            logits = self.dense(dense, pooled)
            loss = F.binary_cross_entropy_with_logits(logits, labels, reduction="sum")
            loss = loss / self.config.train.global_batch  # this rank's part of the mean over the global batch

            zmon.phase("backward")
            self.dense.gradients.zero_()
            loss.backward()  # into dense.gradients, and pooled.grad
            self.dense.sums[0], self.dense.sums[1] = loss.detach(), labels.sum()  # they ride along
            gradient_here = self.exchange.gradients(pooled.grad)  # (R·T·B, D)
            dist.all_reduce(self.dense.gradients)

            zmon.phase("optimizer")
            self.tables.update(rows, lengths, gradient_here)  # merges duplicate rows first
            self.optimizer.step()

            zmon.work(samples=self.local_batch, lookups=len(ids))
        log_loss, clicks = self.dense.sums.tolist()
        return log_loss, clicks / self.config.train.global_batch

    def run(self) -> None:
        """Train for the configured number of steps, telling zmon and people how it goes."""
        train = self.config.train
        numbers: Iterable[int] = range(train.steps) if train.steps else count()
        progress = Progress(train.progress_every, train.global_batch, self.world.say)
        for number in numbers:
            log_loss, mean_label = self.step(number)
            entropy = progress.step(log_loss, mean_label)
            zmon.report(loss=log_loss, normalized_entropy=entropy)
        self.world.say(progress.summary())
        if isinstance(self.source, Criteo) and self.source.num_skipped:
            self.world.warn(self.source.skipped())


def _open_source(config: Config, world: World) -> Source:
    rows, train = config.embedding.rows, config.train
    if config.criteo.file:
        return Criteo(config.criteo, rows, train.global_batch, world.warn)
    return Synthetic(config.synthetic, rows, config.model.dense_features, train.seed)
