"""Find the rank that left cleanly (exit code 0) while the others went on, and so made them fail or wait.

Uneven inputs do this: one rank has fewer batches than the others. A rank that finishes first while the others finish
too is no fault, nor is a rank that leaves early and is not missed.
"""

from __future__ import annotations

from zmon.detectors.parts.deaths import Death, began_seconds, gone_seconds
from zmon.detectors.parts.ends import Ends, with_first_words
from zmon.detectors.parts.wording import ranks_on
from zmon.schema.evidence import Evidence
from zmon.schema.finding import Finding
from zmon.schema.rank import RankState

_ADVICE = (
    "The ranks did not have the same number of batches. Give every rank the same number: `drop_last=True` and a "
    "`DistributedSampler` in the loader, and compare `len(loader)` on all ranks before the loop. Or let ranks that are "
    "done take part in the collectives of the others: `with torch.distributed.algorithms.join.Join([model]):`."
)


def uneven_end(ends: Ends) -> Finding | None:
    """Return a finding about ranks that left while others went on; None if no rank failed or waits because of that."""
    left = ends.of(Death.FINISHED)
    missed = ends.of(Death.VICTIM, Death.NOT_MET)
    waiting = [r for r in ends.living if any(_waits_for(r, leaver) for leaver in left)]
    if not left or not (missed or _is_stuck(ends, waiting)):
        return None
    others = missed or waiting
    caused = [leaver for leaver in left if _went_before(ends, leaver, others)]
    if not caused:
        return None
    rest = [r for r in ends.snapshot.ranks if r not in caused]
    odd = caused if len(caused) <= len(rest) else rest
    count = max(r.steps for r in caused)
    leavers, plural = ranks_on(caused), "s" if count != 1 else ""
    is_exit = all(r.last_words is not None or r.exit_status is None for r in caused)
    how = "left cleanly" if is_exit else "left with exit code 0 and without Python's exit handlers (os._exit)"
    what = "failed of the broken connections" if missed else "wait for it"
    return ends.finding(
        cause="uneven_end",
        summary=f"{leavers} {how} after {count} step{plural} while the others went on; {len(others)} of them {what} "
        f"at step {others[0].step} during {others[0].activity}",
        detail=_ADVICE if is_exit else f"Look for `os._exit` or an `exec` in the code of the job. {_ADVICE}",
        confidence=0.9,
        culprits=odd,
        evidence=with_first_words(Evidence(), caused[0]),
    )


def _is_stuck(ends: Ends, waiting: list[RankState]) -> bool:
    """Return True if every rank that is left is past its lease, and some of them wait for a rank that left."""
    return bool(waiting) and all(r.overdue_seconds > 0 for r in ends.living)


def _waits_for(state: RankState, leaver: RankState) -> bool:
    """Return True if the rank is in a collective that the other, a member of the same group, has never entered."""
    inside = state.in_flight
    return inside is not None and 0 < leaver.sequences.get(inside.group, inside.sequence) < inside.sequence


def _went_before(ends: Ends, leaver: RankState, others: list[RankState]) -> bool:
    """Return True if the rank left before the others failed, and they have made no step since.

    The others may need seconds to fail: they raise when the process of the leaver has ended.
    """
    left, limits = began_seconds(leaver), ends.limits
    if left + limits.together_seconds < max(began_seconds(r) for r in others) and gone_seconds(leaver) < left:
        return False
    return all(r.step_seconds >= left - limits.left_seconds for r in others)
