"""Prove it: cause a fault in a real job and see who is blamed, for what, how soon. One row a drill.

`matrix` lists the drills of one host, `matrix_of_hosts` those of four, `faults/` is what they do, `jobs/` is whom they
do it to; `stage` is what they are played on, `play` plays one, `score` judges. To add one: a fault, and a row in the
matrix.
"""

from __future__ import annotations

from zmon.drills.drill import Drill
from zmon.drills.matrix import FAULTS, QUIET
from zmon.drills.matrix_of_hosts import HOSTS

ALL: tuple[Drill, ...] = (*FAULTS, *QUIET, *HOSTS)
