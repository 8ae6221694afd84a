"""The bundled trainer with a pause in each forward, so that the processors have time for whoever looks at it.

python unhurried.py SECONDS TRAINER-ARGUMENT…
"""

import sys
import time

from trainer.__main__ import main
from trainer.model.dense import DenseModel

seconds = float(sys.argv.pop(1))
top = DenseModel.top


def slower(self, *inputs):
    """The upper layers, late."""
    time.sleep(seconds)
    return top(self, *inputs)


DenseModel.top = slower
main()
