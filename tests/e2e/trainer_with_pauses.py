"""Run the bundled trainer with a pause in each forward pass, so that the processors have time for the stack.

Usage: `python trainer_with_pauses.py SECONDS TRAINER-ARGUMENT…`.
"""

import math
import sys
import time

from trainer.__main__ import main
from trainer.dense import DenseModel

DRIFT, DRIFT_SECONDS = 0.04, 20.0  # amplitude and period of the pause: tests check that the shown step time changes
seconds = float(sys.argv.pop(1))
top = DenseModel.top


def slower(self, *inputs):
    """Compute the upper layers after a pause, which is equal on all ranks and varies slowly."""
    time.sleep(seconds * (1 + DRIFT * math.sin(2 * math.pi * time.time() / DRIFT_SECONDS)))
    return top(self, *inputs)


DenseModel.top = slower
main()
