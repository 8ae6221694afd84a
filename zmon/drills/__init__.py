"""Test zmon with real faults: cause a fault in a real job, and score the culprit, the cause and the time to report it.

`matrix` lists the drills of one host, `matrix_of_hosts` the drills of four hosts. `faults/` has the faults, and `jobs/`
the jobs that they are injected into. `stage` is the interface to jobs and zmon, `play` plays one drill, and `score`
judges it. To add a drill, write its fault and add a row to the matrix.
"""

from __future__ import annotations

from zmon.drills.drill import Drill
from zmon.drills.matrix import FAULTS, QUIET
from zmon.drills.matrix_of_hosts import HOSTS

ALL: tuple[Drill, ...] = (*FAULTS, *QUIET, *HOSTS)
