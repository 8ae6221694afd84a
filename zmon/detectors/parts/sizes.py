"""Ranks died inside a collective: did one of them bring another size, or another collective, than the rest?

gloo aborts whoever receives more than it expects ("Received data size doesn't match expected size", pair.cc), within
milliseconds, and the others die of that: the one at fault looks like a victim, or has gone on to its next collective.
What each brought stands in its box, alive or dead, for the last two. Sizes are compared only where a rank's death says
that they matter: those of an all-to-all may differ, and it is then the majority of equal ones that tells the odd one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from zmon.detectors.parts.waiting import SAME_SIZE, Brought, Mismatch, disagreement
from zmon.schema.rank import EnteredCollective, RankState

# gloo (pair.cc, alltoallv.cc) and torch itself (ProcessGroupWrapper.cpp, with TORCH_DISTRIBUTED_DEBUG=DETAIL).
_COMPLAINT = re.compile(
    r"data size doesn't match|enforce fail .*(LengthPerRank|nbytes)|mismatch between collectives"
    r"|split sizes do(es)?n'?t match",
    re.IGNORECASE,
)


def quarrel(ranks: Sequence[RankState], ended: Sequence[RankState]) -> Mismatch | None:
    """The first place at which the ranks of a job did not bring the same, if some that have `ended` died of that."""
    complaints = [r.entered[0] for r in ended if r.entered and _complains(r)]
    if not complaints:
        return None
    brought = [(r, one) for r in ranks for one in r.entered]
    there = [
        (r, one) for r, one in brought if any((one.group, one.sequence) == (c.group, c.sequence) for c in complaints)
    ]
    return disagreement(_brought(r, one, SAME_SIZE) for r, one in brought) or disagreement(
        _brought(r, one, (*SAME_SIZE, "all_to_all")) for r, one in there
    )


def _brought(rank: RankState, one: EnteredCollective, same: Sequence[str]) -> Brought:
    return Brought(rank, one.group, one.sequence, one.op, one.num_bytes if one.op in same else None)


def _complains(state: RankState) -> bool:
    """Whether it died of what another rank brought: aborted by gloo while it waited, or with an error that says so."""
    if state.device != "cpu":  # NCCL compares nothing
        return False
    words = state.last_words
    if words is not None and words.kind == "exception":
        return _COMPLAINT.search(words.message) is not None
    return words is None and state.in_flight is not None and state.exit_status == "signal SIGABRT"
