"""The bundled trainer with a pause in each forward, so that the processors have time for whoever looks at it.

python unhurried.py SECONDS TRAINER-ARGUMENT…
"""

import math
import sys
import time

from trainer.__main__ import main
from trainer.model.dense import DenseModel

DRIFT, DRIFT_SECONDS = 0.04, 20.0  # of the pause: a page that shows the step time shows that it moves
seconds = float(sys.argv.pop(1))
top = DenseModel.top


def slower(self, *inputs):
    """The upper layers, late: on all ranks alike, and by a little more or less from second to second, as in life."""
    time.sleep(seconds * (1 + DRIFT * math.sin(2 * math.pi * time.time() / DRIFT_SECONDS)))
    return top(self, *inputs)


DenseModel.top = slower
main()
