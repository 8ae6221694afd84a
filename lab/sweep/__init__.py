"""Scaling curves: a command is run at several sizes, and its step times are compared.

`sizes` chooses sizes and commands, `job` starts and ends a command, `running` records its steps, `settled` makes a
point of the curve from them, and `results` compares the points.
"""

from lab.sweep.running import Failed, run_at
from lab.sweep.settled import settled_point
from lab.sweep.sizes import Size, command_at, sizes, template

__all__ = ["Failed", "Size", "command_at", "run_at", "settled_point", "sizes", "template"]
