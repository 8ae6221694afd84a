"""Scaling curves: a command is run at several sizes, and its step times are compared.

`sizes` chooses sizes and commands, `job` starts and ends a command, `run` records its steps, `point` makes a point of
the curve from them, and `results` compares the points.
"""

from lab.sweep.point import settled_point
from lab.sweep.run import FailedRun, Run, run_at
from lab.sweep.sizes import Size, command_at, sizes, template

__all__ = ["FailedRun", "Run", "Size", "command_at", "run_at", "settled_point", "sizes", "template"]
