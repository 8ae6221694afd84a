"""How good the model is on samples that it is never trained on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainer.batch import Source, shares
from trainer.errors import require
from trainer.loader import Loaded
from trainer.quality import Predictions, Quality

if TYPE_CHECKING:  # it knows the whole configuration, of which this is a part
    from trainer.train import Trainer


@dataclass(frozen=True)
class EvaluationConfig:
    every: int = 0  # steps from one evaluation to the next; 0: none
    batches: int = 20  # of the training's size, or as many as there are

    def __post_init__(self) -> None:
        require(self.every >= 0, "evaluation.every", self.every, "0 (never) or more")
        require(self.batches > 0, "evaluation.batches", self.batches, "1 or more")


def evaluate(trainer: Trainer, held_out: Source) -> Quality:
    """The same on every rank, which must all ask."""
    config, world = trainer.config, trainer.world
    predictions = Predictions(trainer.dtype, world.device)
    left = config.evaluation.batches * config.train.global_batch
    if held_out.num_samples is not None:
        left = min(left, held_out.num_samples)
    for number in range(config.evaluation.batches):
        size = min(left, config.train.global_batch)
        if not size:
            break
        share = shares(size, world.size)[world.rank]
        loaded = Loaded(number, size, held_out.batch(number, share.start, share.size))
        predictions.add(trainer.predict(loaded), loaded.batch.labels.to(world.device))
        left -= size
    return predictions.quality()
