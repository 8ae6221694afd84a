"""The evaluation of the model on held-out samples."""

from __future__ import annotations

from itertools import islice

from trainer.faults import raise_on_all_ranks
from trainer.loader import Extent, Loader, Source
from trainer.quality import Predictions, Quality
from trainer.train import Trainer


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
