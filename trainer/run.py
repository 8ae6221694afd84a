"""A run from its first step to its last: it reads ahead, trains, evaluates, keeps, and tells how it goes."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping

from torch import Tensor

import zmon
from trainer.batch import Source
from trainer.checkpoint import Checkpoints, Rows, State, whole
from trainer.config import Config
from trainer.criteo import Criteo
from trainer.errors import TrainingError
from trainer.evaluate import evaluate
from trainer.loader import Extent, Loader
from trainer.planning import plan
from trainer.progress import Progress, terminal
from trainer.quality import Running
from trainer.sharding.plan import as_text
from trainer.shards import open_criteo
from trainer.synthetic import Synthetic
from trainer.train import Stepped, Trainer
from trainer.world import World


def open_source(config: Config, world: World) -> Source:
    """Where samples come from. Raises DataError, ConfigError."""
    rows, train = config.embedding.rows, config.train
    if config.criteo.file:
        return open_criteo(config.criteo, rows, train.global_batch, world.warn)
    return Synthetic(config.synthetic, rows, config.model.dense_features, train.seed)


def extent(config: Config, source: Source) -> Extent:
    """How many steps there are, and how large they are."""
    train = config.train
    if train.epochs and source.num_samples is not None:
        return Extent.of_epochs(train.epochs, source.num_samples, train.global_batch)
    return Extent.of_steps(train.steps or None, train.global_batch)


class Run:
    """One start of a run. The group must have been joined."""

    def __init__(self, config: Config, world: World, source: Source) -> None:
        self.config, self.world, self.source = config, world, source
        self.extent = extent(config, source)
        self.held_out = source.held_out() if config.evaluation.every else None
        with zmon.activity("init"):  # optimizers are tried out: that is no training
            self.trainer = Trainer(config, world, plan(config, world))
        self.running = Running()
        self.checkpoints: Checkpoints | None = None
        self.done = 0  # steps
        self._untold: Stepped | None = None
        row_bytes = (config.embedding.dim + 1) * self.trainer.dtype.itemsize  # with its optimizer's state
        world.say(as_text(self.trainer.plan, config.embedding.rows, row_bytes))
        zmon.plan(ranks=self.trainer.plan.as_json())
        if config.checkpoint.folder:
            self.checkpoints = Checkpoints(config.checkpoint, self.state(), world.warn)
            with zmon.activity("checkpoint"):
                self.done, kept = self.checkpoints.resume()
            self._compare(kept)
            if self.done:
                world.say(f"goes on from step {self.done}, as kept in {config.checkpoint.folder}")

    def train(self) -> None:
        """To the end of the run. Raises TrainingError, CheckpointError, DataError."""
        config, world, trainer = self.config, self.world, self.trainer
        loader = Loader(self.source, self.extent, world.rank, world.size, config.loader.depth, self.done)
        last = self.extent.steps or 0
        progress = Progress(config.train.progress_every, world.say, last, self.done, terminal(world.rank))
        with loader as batches, progress:
            trainer.take(batches)
            while trainer.next is not None:
                trainer.in_trouble = self.checkpoints is not None and self.checkpoints.failed
                self._tell(progress, trainer.step(batches))
                self.done += 1
                if config.evaluation.every and self.done % config.evaluation.every == 0:
                    self._tell(progress)
                    self._evaluate(progress)
                if self.checkpoints and self.checkpoints.due(self.done):
                    self._tell(progress)
                    self._save(self.checkpoints)
            self._tell(progress)
            if self.checkpoints:
                self._save(self.checkpoints)
                self.checkpoints.wait()
        world.say(progress.summary(self.running.lifetime()))
        if isinstance(self.source, Criteo) and self.source.skipped:
            world.warn(self.source.skipped)

    def state(self) -> State:
        """What a checkpoint keeps: all that a step changes."""
        trainer, rows = self.trainer, self.config.embedding.rows
        kept = {"dense": whole(trainer.flat.parameter.data)}
        kept |= {
            f"{self.config.optimizer.dense}.{name}": whole(tensor) for name, tensor in trainer.optimizer.state().items()
        }
        kept |= {f"quality.{name}": whole(tensor) for name, tensor in self.running.state().items()}
        held: dict[int, list[tuple[int, Tensor, Tensor]]] = {table: [] for table in range(len(rows))}
        for shard, weight, state in trainer.tables.parts():
            held[shard.table].append((shard.first_row, weight, state))
        for table, weight, state in trainer.replicated.parts():
            held[table].append((0, weight, state))
        for table, parts in held.items():
            kept[f"table.{table}.weight"] = Rows(rows[table], [(first, weight) for first, weight, _ in parts])
            kept[f"table.{table}.{self.config.optimizer.embedding}"] = Rows(
                rows[table], [(first, state) for first, _, state in parts]
            )
        return kept

    def _compare(self, kept: Mapping[str, float]) -> None:
        """What may be changed at a resume, and what it means."""
        for name, value in kept.items():
            if value != (now := getattr(self.config.train, name)):
                self.world.warn(
                    f"train.{name} is {now}, and was {value:g} when step {self.done} was saved: the run goes on with "
                    "other samples than it would have"
                )

    def _tell(self, progress: Progress, stepped: Stepped | None = None) -> None:
        """How the step before this one went: a step later nobody has to wait for its sums any more."""
        before, self._untold = self._untold, stepped
        if before is None:
            return
        log_loss, labels, predictions, in_trouble = before.sums.tolist()
        if in_trouble and self.checkpoints:
            self.checkpoints.wait()  # raises, on all ranks
        if self.config.train.stop_at_nan and not math.isfinite(log_loss):
            if self.checkpoints:
                self.checkpoints.wait()  # one that is being written is of a step before
            raise TrainingError(
                f"the loss of step {before.step + 1} is {log_loss}",
                "the samples have a value that is no number, or the learning rate is too high",
                "Look at the data, or go on from a checkpoint with a lower optimizer.dense_learning_rate",
            )
        self.running.step(before.samples, log_loss, labels, predictions)
        quality = self.running.windowed()
        progress.step(before.samples, quality)
        zmon.report(loss=log_loss / before.samples, normalized_entropy=quality.normalized_entropy)

    def _evaluate(self, progress: Progress) -> None:
        assert self.held_out is not None
        begin = time.perf_counter()
        with zmon.activity("eval"):
            quality = evaluate(self.trainer, self.held_out)
        progress.evaluated(quality, time.perf_counter() - begin)
        zmon.report(auc=quality.auc, calibration=quality.calibration)

    def _save(self, checkpoints: Checkpoints) -> None:
        with zmon.activity("checkpoint"):
            train = self.config.train
            checkpoints.save(self.done, {"global_batch": train.global_batch, "seed": train.seed})
