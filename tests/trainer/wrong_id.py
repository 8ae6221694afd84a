"""Train with an id on one rank that is no row of its table: `wrong_id.py RANK OPTION…`. Each bag has to have one id."""

import os
import sys

from trainer import __main__ as command
from trainer.batch import Batch
from trainer.synthetic import Synthetic

STEP, TABLE, SAMPLE, ID = 3, 1, 5, 7  # the table has 7 rows
original = Synthetic.batch


def batch(self: Synthetic, step: int, start: int, size: int) -> Batch:
    """Return a batch, with the wrong id if it is that of the step on the rank."""
    samples = original(self, step, start, size)
    if step == STEP and os.environ["RANK"] == wrong_rank:
        samples.ids[TABLE * size + SAMPLE] = ID
    return samples


if __name__ == "__main__":
    wrong_rank = sys.argv.pop(1)
    Synthetic.batch = batch
    command.main()
