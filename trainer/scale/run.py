"""A run from its start or from a checkpoint: it plans the tables, builds the trainer and trains."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

import torch.distributed as dist

import zmon
from trainer.errors import DataError
from trainer.faults import same_error_on_all_ranks
from trainer.loader import Extent, Source
from trainer.loop import Loop
from trainer.scale.checkpoint import CheckpointConfig, Checkpoints, State
from trainer.scale.config import RunConfig
from trainer.scale.criteo import Criteo
from trainer.scale.fastest_kernel import kernel_number, with_fastest
from trainer.scale.planning import plan, row_bytes
from trainer.scale.pooled_check import CheckedExchange
from trainer.scale.sharding.text import as_text
from trainer.scale.shards import open_criteo
from trainer.scale.state import state_of
from trainer.scale.tier.kernel import TieredKernel
from trainer.scale.tier.memory import CacheNote
from trainer.synthetic import Synthetic
from trainer.train import Trainer
from trainer.world import World

_REPORTED_WAIT_SECONDS = 0.5  # a shorter wait for a checkpoint is not printed


def open_source(config: RunConfig, world: World) -> Source:
    """Open the source of samples. Raises DataError, ConfigError."""
    rows, train = config.embedding.rows, config.train
    if config.criteo.file:
        return open_criteo(config.criteo, rows, train.global_batch, world.warn)
    return Synthetic(config.synthetic, rows, config.model.dense_features, train.seed)


def extent(config: RunConfig, source: Source) -> Extent:
    """Return the number of steps and the size of their global batches."""
    train = config.train
    if train.epochs and source.num_samples is not None:
        return Extent.of_epochs(train.epochs, source.num_samples, train.global_batch)
    return Extent.of_steps(train.steps or None, train.global_batch)


def _check_samples(source: Source, world: World) -> None:
    """Raise DataError on all ranks unless they have equal numbers of samples: they would end at different steps."""
    num_samples = [0] * world.size  # of each rank
    dist.all_gather_object(num_samples, source.num_samples or 0)
    for rank, num_samples_of_rank in enumerate(num_samples):
        if num_samples_of_rank != num_samples[0]:
            raise DataError(
                f"rank {rank} has {num_samples_of_rank:,} samples, and rank 0 has {num_samples[0]:,}",
                "the data was still being written, or the hosts have different copies",
                "Give all ranks the same complete data",
            )


class Run(Loop):
    """One run from its start or from a checkpoint. The process group must exist."""

    def __init__(self, config: RunConfig, world: World, source: Source) -> None:
        with zmon.activity("init"):  # the optimizers' trial steps are not training
            _check_samples(source, world)
            self.plan = plan(config, world)
            config = with_fastest(config, world, source, self.plan.tables)
            with same_error_on_all_ranks():  # the kernel may support the tables of some ranks only
                trainer = Trainer(config, world, self.plan.tables)
        if config.check.pooled:
            trainer.exchange = CheckedExchange(trainer.exchange, config.embedding.dims, world)
        super().__init__(trainer, source, extent(config, source))
        self.config: RunConfig = config
        world.say(as_text(self.plan, config.embedding.rows, row_bytes(config, self.plan)))
        zmon.plan(ranks=self.plan.as_json(), steps=self.extent.steps)
        on_disk = [kernel for kernel in trainer.tables.on_disk.values() if isinstance(kernel, TieredKernel)]
        if on_disk:
            self.note = CacheNote(on_disk, world.warn)
        if config.checkpoint.folder:
            self.checkpoints = self._resume(config.checkpoint)

    def train(self) -> None:
        """Train to the end of the run. Raises TrainingError, CheckpointError, DataError."""
        super().train()
        if isinstance(self.source, Criteo) and self.source.skipped:
            self.world.warn(self.source.skipped)

    def state(self) -> State:
        """Return the tensors of a checkpoint: everything that a step changes."""
        return state_of(self.trainer, self.running)

    def _resume(self, config: CheckpointConfig) -> Checkpoints:
        """Open the checkpoints of this run, and resume from one of them."""
        # Rows on a disk have no room for copies, so training waits until they are written.
        config = replace(config, asynchronous=config.asynchronous and not self.config.embedding.tier.folder)
        constants = kernel_number(self.config.embedding.kernel)
        checkpoints = Checkpoints(config, self.state(), self.world.warn, constants)
        with zmon.activity("checkpoint"):
            self.steps_done, numbers = checkpoints.resume()
        self._warn_of_changes(numbers)
        if self.steps_done:
            self.world.say(f"resumed from step {self.steps_done} in {config.folder}")
        return checkpoints

    def _save(self) -> None:
        begin = time.perf_counter()
        super()._save()
        if (seconds := time.perf_counter() - begin) >= _REPORTED_WAIT_SECONDS:
            self.world.say(f"step {self.steps_done}  training waited {seconds:.1f} s for a checkpoint")

    def _warn_of_changes(self, numbers: Mapping[str, float]) -> None:
        """Warn if a setting that selects the samples differs from the checkpoint's numbers, or samples are skipped."""
        for name in ("global_batch", "seed"):
            value: int = getattr(self.config.train, name)
            if (old := numbers.get(name, value)) != value:
                self.world.warn(
                    f"train.{name} is {value}, but was {old} when step {self.steps_done} was saved: from here on the "
                    "run trains on other samples than without the change"
                )
        position = self.extent.samples(self.steps_done)
        num_skipped = position - numbers.get("samples", position)  # older checkpoints do not have it
        if num_skipped > 0 and numbers.get("global_batch") == self.config.train.global_batch:
            self.world.warn(
                f"{num_skipped:.0f} samples are skipped: step {self.steps_done} was the last step of the run that "
                "saved it, with fewer samples, and this run continues after a full batch"
            )
