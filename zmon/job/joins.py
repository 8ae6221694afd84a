"""Match the steps of ranks that count them from different moments, because they joined at different steps. Pure.

A job may heal in its processes, as with torchft or the in-process restart of NVIDIA's resiliency extension: the ranks
that live make their process groups anew and train on, and a new process replaces the rank that failed. The new process
counts its steps from 1, and the others go on counting. Since they joined, all ranks have taken the same steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from zmon.job.alignment import Matrix
from zmon.job.outcome import first_step
from zmon.schema.rank import RankState
from zmon.schema.steps import STEP


def steps_before_join(ranks: Sequence[RankState]) -> dict[str, int]:
    """Return by run uid the steps that the ranks had finished when they joined; empty if step numbers compare.

    Step numbers compare if all ranks had finished as many steps. They also compare if the job numbers its steps: a new
    process takes the number from a checkpoint or from its peers, so its first step is not 1.
    """
    if len({state.steps_before_join for state in ranks}) < 2:
        return {}
    # At most 1: an agent reads the number and the count of the steps one after the other, and a step may end between.
    count_from_one = all((first_step(state) or 1) <= 1 for state in ranks)
    return {state.run_uid: state.steps_before_join for state in ranks} if count_from_one else {}


def since_join(steps: Matrix, before: Mapping[int, int]) -> Matrix | None:
    """Return the steps since the ranks joined, with the numbers of the rank that had finished most steps before.

    `before`: rank → its steps before it joined. None if no step is left. Earlier steps are left out, because the ranks
    were in other groups then.
    """
    before_of_rank = np.zeros(max([*before, int(steps.ranks.max())]) + 1, np.int64)
    before_of_rank[[*before]] = [*before.values()]
    since = steps.steps - before_of_rank[steps.ranks]
    rows = np.flatnonzero(since > 0)
    if not len(rows):
        return None
    numbers = steps.numbers[:, rows]
    numbers[steps.names.index(STEP)] = since[rows] + before_of_rank.max()
    return Matrix(steps.names, numbers, steps.ranks[rows])
