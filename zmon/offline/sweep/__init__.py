"""What more ranks make of a job: a command run at several sizes, and the curve that its steps make.

`sizes` says what is run, `job` starts and ends it, `running` watches it and brings its steps, `settled` makes a point
of them, `judged` holds points against each other, `text` tells the curve.
"""

from zmon.offline.sweep.running import Failed, run_at
from zmon.offline.sweep.settled import settled
from zmon.offline.sweep.sizes import Size, command_at, sizes, template

__all__ = ["Failed", "Size", "command_at", "run_at", "settled", "sizes", "template"]
