"""Train with an id on one rank that is no row of its table: `wrong_id.py RANK OPTION…`."""

import os
import sys

import torch

from trainer import __main__ as command
from trainer.batch import Batch
from trainer.synthetic import Synthetic

STEP, TABLE, SAMPLE, ID = 3, 1, 5, 7


def with_wrong_id(batch: Batch) -> Batch:
    """Return the batch with one bag that has an id above the last row."""
    lengths = batch.lengths.clone()
    position = int(lengths.flatten().cumsum(0)[TABLE * lengths.shape[1] + SAMPLE - 1])
    lengths[TABLE, SAMPLE] += 1
    ids = torch.cat([batch.ids[:position], torch.tensor([ID]), batch.ids[position:]])
    return Batch(batch.dense, ids, lengths, batch.labels)


original = Synthetic.batch


def batch(self: Synthetic, step: int, start: int, size: int) -> Batch:
    samples = original(self, step, start, size)
    return with_wrong_id(samples) if step == STEP and os.environ["RANK"] == rank else samples


if __name__ == "__main__":
    rank = sys.argv.pop(1)
    Synthetic.batch = batch
    command.main()
