"""Steps that ranks count from different moments, because they joined the others with a different number of steps.

A job may heal in its processes, as with torchft or the in-process restart of NVIDIA's resiliency extension: the ranks
that live make their process groups anew and train on, and a new process replaces the rank that failed. It counts its
steps from 1, and they go on with theirs. All of them count the same steps since they joined. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from zmon.job.alignment import Matrix
from zmon.job.outcome import first_step
from zmon.schema.rank import RankState
from zmon.schema.steps import STEP


def steps_before_join(ranks: Sequence[RankState]) -> dict[str, int]:
    """Return by run uid the steps that the ranks had finished when they joined; empty if their numbers compare.

    They compare if all ranks had finished as many. They also compare if the job gives its steps numbers, which a new
    process takes from a checkpoint or from its peers: then its first one is not 1.
    """
    if len({state.steps_before_join for state in ranks}) < 2:
        return {}
    # A rank may finish steps between the two moments at which its agent reads their number and their count.
    count_themselves = all((first_step(state) or 1) <= 1 for state in ranks)
    return {state.run_uid: state.steps_before_join for state in ranks} if count_themselves else {}


def since_join(steps: Matrix, before: Mapping[int, int]) -> Matrix | None:
    """Return the steps since the ranks joined, with the numbers of the rank that had finished most steps before.

    `before`: rank → its steps before. None if no step is left: the ranks were in other groups before.
    """
    of_rank = np.zeros(max([*before, int(steps.ranks.max())]) + 1, np.int64)
    of_rank[[*before]] = [*before.values()]
    since = steps.steps - of_rank[steps.ranks]
    rows = np.flatnonzero(since > 0)
    if not len(rows):
        return None
    numbers = steps.numbers[:, rows]
    numbers[steps.names.index(STEP)] = since[rows] + of_rank.max()
    return Matrix(steps.names, numbers, steps.ranks[rows])
