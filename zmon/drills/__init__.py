"""Test zmon with real faults: cause one in a real job, and score which culprit and cause zmon reports, and how fast.

`matrix` lists the drills of one host, `matrix_of_hosts` those of four. `faults/` has the faults, and `jobs/` the jobs
that they are injected into. `stage` is the interface to jobs and monitor, `play` plays one drill, and `score` judges
it. To add a drill, write its fault and add a row to the matrix.
"""

from __future__ import annotations

from zmon.drills.drill import Drill
from zmon.drills.matrix import FAULTS, QUIET
from zmon.drills.matrix_of_hosts import HOSTS

ALL: tuple[Drill, ...] = (*FAULTS, *QUIET, *HOSTS)
