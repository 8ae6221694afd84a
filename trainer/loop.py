"""The training loop: it trains, evaluates, saves checkpoints and reports progress, to the end of the run."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Protocol

import zmon
from trainer.batch import StepBatch
from trainer.errors import CheckpointError, TrainerError, TrainingError
from trainer.faults import CheckedSource, raise_on_all_ranks
from trainer.loader import Extent, Loader, Source
from trainer.progress import Progress, terminal
from trainer.quality import Predictions, Quality, RunningQuality
from trainer.schedule import rate_factor
from trainer.train import StepResult, Trainer


def steps(
    trainer: Trainer, batches: Iterator[StepBatch], must_stop: Callable[[], bool] = lambda: False
) -> Iterator[StepResult]:
    """Train on all batches and yield the result of each step. `must_stop` is called before each step."""
    batch = trainer.load(batches)
    while batch is not None:
        rate = rate_factor(trainer.config.schedule, batch.step_batch.step)
        result, batch = trainer.step(batch, rate, batches, must_stop())
        yield result


def evaluate(trainer: Trainer, held_out: Source) -> Quality:
    """Return the quality of the predictions for held-out samples. All ranks must call it. They get the same result.

    Raises DataError on all ranks if one of them could not use its samples.
    """
    config, world = trainer.config, trainer.world
    global_batch, predictions = config.train.global_batch, Predictions(trainer.dtype, world.device)
    extent = Extent.of_steps(None, global_batch)
    if held_out.num_samples is not None:
        extent = Extent.of_epochs(1, held_out.num_samples, global_batch)
    batches = Loader(held_out, extent, world.rank, world.size, depth=0)
    fault = None
    for step_batch in islice(batches, config.evaluation.batches):
        predictions.add(trainer.predict(step_batch), step_batch.batch.labels.to(world.device))
        fault = fault or step_batch.batch.fault
    raise_on_all_ranks(fault)
    return predictions.quality()


class Checkpoints(Protocol):
    """The checkpoints of a run. All ranks make the same calls in the same order, and an error is raised on all."""

    @property
    def has_failed(self) -> bool:
        """True if this rank knows that a save in the background failed. The next call will raise."""

    def is_due(self, step: int) -> bool:
        """Return True if a checkpoint is due after this many steps."""

    def save(self, step: int, numbers: Mapping[str, float]) -> None:
        """Save what a step changes, with numbers that are equal on all ranks. Raises CheckpointError."""

    def wait(self) -> None:
        """Wait for a save in the background. Raises CheckpointError."""


class Loop:
    """The steps of a run from `steps_done` on. `checkpoints` and `note` may be set before it trains."""

    def __init__(self, trainer: Trainer, source: Source, extent: Extent) -> None:
        self.trainer, self.source, self.extent = trainer, source, extent
        self.config, self.world = trainer.config, trainer.world
        self.checked_source = CheckedSource(source, self.config.embedding.rows, self.config.model.dense_features)
        self.held_out = self.checked_source.held_out() if self.config.evaluation.every else None
        self.running = RunningQuality()
        self.checkpoints: Checkpoints | None = None
        self.note: Callable[[], str] = lambda: ""  # additional text for each line of progress
        self.steps_done = 0
        self._last_result: StepResult | None = None

    def train(self) -> None:
        """Train to the end of the run. Raises TrainingError, CheckpointError, DataError."""
        config, world = self.config, self.world
        loader = Loader(
            self.checked_source, self.extent, world.rank, world.size, config.loader.depth, first=self.steps_done
        )
        progress = Progress(
            config.train.progress_every,
            world.say,
            last_step=self.extent.steps or 0,
            first_step=self.steps_done,
            terminal=terminal(world.rank),
            note=self.note,
        )
        with loader as batches, progress, self._save_completed():
            for result in steps(self.trainer, batches, self._must_stop):
                self._report(progress, result)
                self.steps_done += 1
                if config.evaluation.every and self.steps_done % config.evaluation.every == 0:
                    self._report(progress)
                    self._evaluate(progress)
                if self.checkpoints and self.checkpoints.is_due(self.steps_done):
                    self._report(progress)
                    self._save()
            self._report(progress)
            if self.checkpoints:
                self._save()
                self.checkpoints.wait()
        world.say(progress.summary(self.running.lifetime()))

    def _must_stop(self) -> bool:
        return self.checkpoints is not None and self.checkpoints.has_failed

    @contextmanager
    def _save_completed(self) -> Iterator[None]:
        """Before an error ends the run on all ranks, wait for a save in progress, which is of an earlier step."""
        try:
            yield
        except TrainerError:
            if self.checkpoints:
                with suppress(CheckpointError):
                    self.checkpoints.wait()
            raise

    def _report(self, progress: Progress, result: StepResult | None = None) -> None:
        """Report the previous step, and remember `result` for the next call.

        By now a GPU has computed the sums of the previous step, so the CPU hardly waits for them.
        """
        previous, self._last_result = self._last_result, result
        if previous is None:
            return
        sums = previous.sums.numbers()
        if sums.must_stop:
            raise_on_all_ranks(previous.fault)
            assert self.checkpoints is not None
            self.checkpoints.wait()  # raises on all ranks
        if self.config.train.stop_at_nan and not math.isfinite(sums.log_loss):
            raise TrainingError(
                f"the loss of step {previous.step + 1} is {sums.log_loss}",
                "a sample has a value that is NaN or infinite, or the learning rate is too high",
                "Check the data, or resume from a checkpoint with a lower optimizer.dense_learning_rate",
            )
        self.running.step(previous.samples, sums.log_loss, sums.labels, sums.predictions)
        quality = self.running.windowed()
        progress.step(previous.samples, quality)
        zmon.report(loss=sums.log_loss / previous.samples, normalized_entropy=quality.normalized_entropy)

    def _evaluate(self, progress: Progress) -> None:
        assert self.held_out is not None
        begin = time.perf_counter()
        with zmon.activity("eval"):
            quality = evaluate(self.trainer, self.held_out)
        progress.print_evaluation(quality, time.perf_counter() - begin)
        zmon.report(auc=quality.auc, calibration=quality.calibration)

    def _save(self) -> None:
        assert self.checkpoints is not None
        with zmon.activity("checkpoint"):
            train, samples = self.config.train, self.extent.samples(self.steps_done)
            numbers = {"global_batch": train.global_batch, "seed": train.seed, "samples": samples}
            self.checkpoints.save(self.steps_done, numbers)
