"""A run from its first step to its last: it trains, evaluates, saves checkpoints and reports progress."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

import zmon
from trainer.batch import Source
from trainer.checkpoint import Checkpoints, State
from trainer.config import Config
from trainer.criteo import Criteo
from trainer.errors import CheckpointError, TrainerError, TrainingError
from trainer.evaluate import evaluate
from trainer.faults import CheckedSource, raise_on_all_ranks
from trainer.loader import Extent, Loader
from trainer.planning import plan
from trainer.progress import Progress, terminal
from trainer.quality import RunningQuality
from trainer.sharding.plan import as_text
from trainer.shards import open_criteo
from trainer.state import state_of
from trainer.synthetic import Synthetic
from trainer.train import StepResult, Trainer
from trainer.world import World


def open_source(config: Config, world: World) -> Source:
    """Open the source of samples. Raises DataError, ConfigError."""
    rows, train = config.embedding.rows, config.train
    if config.criteo.file:
        return open_criteo(config.criteo, rows, train.global_batch, world.warn)
    return Synthetic(config.synthetic, rows, config.model.dense_features, train.seed)


def extent(config: Config, source: Source) -> Extent:
    """Return the number of steps and the size of their global batches."""
    train = config.train
    if train.epochs and source.num_samples is not None:
        return Extent.of_epochs(train.epochs, source.num_samples, train.global_batch)
    return Extent.of_steps(train.steps or None, train.global_batch)


class Run:
    """One run from its start or from a checkpoint. The process group must exist."""

    def __init__(self, config: Config, world: World, source: Source) -> None:
        self.config, self.world, self.source = config, world, source
        self.extent = extent(config, source)
        self.checked = CheckedSource(source, config.embedding.rows, config.model.dense_features)
        self.held_out = self.checked.held_out() if config.evaluation.every else None
        with zmon.activity("init"):  # the optimizers' trial steps are not training
            self.trainer = Trainer(config, world, plan(config, world))
        self.running = RunningQuality()
        self.checkpoints: Checkpoints | None = None
        self.steps_done = 0
        self._last_result: StepResult | None = None
        # With one number of optimizer state.
        row_bytes = [(dim + 1) * self.trainer.dtype.itemsize for dim in config.embedding.dims]
        world.say(as_text(self.trainer.plan, config.embedding.rows, row_bytes))
        zmon.plan(ranks=self.trainer.plan.as_json())
        if config.checkpoint.folder:
            self.checkpoints = Checkpoints(config.checkpoint, self.state(), world.warn)
            with zmon.activity("checkpoint"):
                self.steps_done, saved = self.checkpoints.resume()
            self._warn_of_changes(saved)
            if self.steps_done:
                world.say(f"resumed from step {self.steps_done} in {config.checkpoint.folder}")

    def train(self) -> None:
        """Train to the end of the run. Raises TrainingError, CheckpointError, DataError."""
        config, world, trainer = self.config, self.world, self.trainer
        loader = Loader(self.checked, self.extent, world.rank, world.size, config.loader.depth, self.steps_done)
        last = self.extent.steps or 0
        progress = Progress(config.train.progress_every, world.say, last, self.steps_done, terminal(world.rank))
        with loader as batches, progress, self._save_completed():
            trainer.load_next(batches)
            while trainer.next_batch is not None:
                trainer.must_stop = self.checkpoints is not None and self.checkpoints.failed
                self._report(progress, trainer.step(batches))
                self.steps_done += 1
                if config.evaluation.every and self.steps_done % config.evaluation.every == 0:
                    self._report(progress)
                    self._evaluate(progress)
                if self.checkpoints and self.checkpoints.due(self.steps_done):
                    self._report(progress)
                    self._save(self.checkpoints)
            self._report(progress)
            if self.checkpoints:
                self._save(self.checkpoints)
                self.checkpoints.wait()
        world.say(progress.summary(self.running.lifetime()))
        if isinstance(self.source, Criteo) and self.source.skipped:
            world.warn(self.source.skipped)

    @contextmanager
    def _save_completed(self) -> Iterator[None]:
        """Before an error ends the run on all ranks, wait for a save in progress: it is of an earlier step."""
        try:
            yield
        except TrainerError:
            if self.checkpoints:
                with suppress(CheckpointError):
                    self.checkpoints.wait()
            raise

    def state(self) -> State:
        """Return the tensors of a checkpoint: everything that a step changes."""
        return state_of(self.trainer, self.running)

    def _warn_of_changes(self, saved: Mapping[str, float]) -> None:
        """Warn if a setting that selects the samples has changed since the checkpoint, or if samples are skipped."""
        for name in ("global_batch", "seed"):
            now: int = getattr(self.config.train, name)
            if (value := saved.get(name, now)) != now:
                self.world.warn(
                    f"train.{name} is {now}, but was {value:g} when step {self.steps_done} was saved: from here on the "
                    "run trains on other samples than without the change"
                )
        position = self.extent.samples(self.steps_done)
        skipped = position - saved.get("samples", position)  # older checkpoints do not have it
        if skipped > 0 and saved["global_batch"] == self.config.train.global_batch:
            self.world.warn(
                f"{skipped:g} samples are skipped: step {self.steps_done} was the last step of the run that saved it, "
                "with fewer samples, and this run continues after a full batch"
            )

    def _report(self, progress: Progress, result: StepResult | None = None) -> None:
        """Report the previous step. By now its sums have arrived, so nothing waits for them."""
        previous, self._last_result = self._last_result, result
        if previous is None:
            return
        log_loss, labels, predictions, must_stop = previous.sums.numbers()
        if must_stop:
            raise_on_all_ranks(self.trainer.fault)
            assert self.checkpoints is not None
            self.checkpoints.wait()  # raises on all ranks
        if self.config.train.stop_at_nan and not math.isfinite(log_loss):
            raise TrainingError(
                f"the loss of step {previous.step + 1} is {log_loss}",
                "a sample has a value that is NaN or infinite, or the learning rate is too high",
                "Check the data, or resume from a checkpoint with a lower optimizer.dense_learning_rate",
            )
        self.running.step(previous.samples, log_loss, labels, predictions)
        quality = self.running.windowed()
        progress.step(previous.samples, quality)
        zmon.report(loss=log_loss / previous.samples, normalized_entropy=quality.normalized_entropy)

    def _evaluate(self, progress: Progress) -> None:
        assert self.held_out is not None
        begin = time.perf_counter()
        with zmon.activity("eval"):
            quality = evaluate(self.trainer, self.held_out)
        progress.evaluated(quality, time.perf_counter() - begin)
        zmon.report(auc=quality.auc, calibration=quality.calibration)

    def _save(self, checkpoints: Checkpoints) -> None:
        with zmon.activity("checkpoint"):
            train, samples = self.config.train, self.extent.samples(self.steps_done)
            numbers = {"global_batch": train.global_batch, "seed": train.seed, "samples": samples}
            checkpoints.save(self.steps_done, numbers)
