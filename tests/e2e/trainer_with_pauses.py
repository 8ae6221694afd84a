"""Run the bundled trainer with a pause in each forward pass, so that the processors have time for the stack.

Usage: `python trainer_with_pauses.py SECONDS TRAINER-ARGUMENT…`.
"""

import math
import sys
import time

from trainer.__main__ import main
from trainer.dense import DenseModel

# The pause varies by 4 % with a period of 20 s, because tests check that the shown step time changes.
DRIFT_RATIO = 0.04
DRIFT_PERIOD_SECONDS = 20.0

pause_seconds = float(sys.argv[1])
del sys.argv[1]  # the trainer parses the rest
original_top = DenseModel.top


def top_after_pause(self, *inputs):
    """Compute the upper layers after a pause, which is equal on all ranks."""
    drift = DRIFT_RATIO * math.sin(2 * math.pi * time.time() / DRIFT_PERIOD_SECONDS)
    time.sleep(pause_seconds * (1 + drift))
    return original_top(self, *inputs)


DenseModel.top = top_after_pause
main()
