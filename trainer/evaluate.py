"""The evaluation of the model on held-out samples."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from trainer.batch import Source
from trainer.errors import require
from trainer.faults import raise_on_all_ranks
from trainer.loader import Extent, Loader
from trainer.quality import Predictions, Quality

if TYPE_CHECKING:  # Importing it at run time would be a cycle: trainer.train imports all configuration classes.
    from trainer.train import Trainer


@dataclass(frozen=True)
class EvaluationConfig:
    every: int = 0  # steps between two evaluations; 0: never
    batches: int = 20  # global batches of one evaluation, or fewer if there are fewer held-out samples

    def __post_init__(self) -> None:
        require(self.every >= 0, "evaluation.every", self.every, "0 (never) or more")
        require(self.batches > 0, "evaluation.batches", self.batches, "1 or more")


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
    for loaded in islice(batches, config.evaluation.batches):
        predictions.add(trainer.predict(loaded), loaded.batch.labels.to(world.device))
        fault = fault or loaded.batch.fault
    raise_on_all_ranks(fault)
    return predictions.quality()
