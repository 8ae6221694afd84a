"""Find the rank that left cleanly (exit code 0) while the others went on, and so made them fail or wait.

Uneven inputs do this: one rank has fewer batches than the others. A rank that finishes first while the others finish
too is no fault, nor is a rank that leaves early and is not missed.
"""

from __future__ import annotations

from zmon.detectors.endings.ends import Ends, with_first_words
from zmon.detectors.leavers import ADVICE, left_text, odd_ranks, ran_exit_handlers
from zmon.job import facts
from zmon.job.own_death import Death, began_seconds
from zmon.schema.evidence import StallEvidence
from zmon.schema.finding import Finding
from zmon.schema.rank import RankState

# A rank that leaves takes the others along only if they have made no step since this long before it left.
_LEFT_SECONDS = 5.0


def uneven_end(ends: Ends) -> Finding | None:
    """Return a finding about ranks that left while others went on; None if no rank failed or waits because of that."""
    left = [*ends.of(Death.FINISHED), *(r for r in ends.living if r.activity == "done")]  # its process may still end
    broken = ends.of(Death.VICTIM, Death.NOT_MET)
    caused = [leaver for leaver in left if _went_before(ends, leaver, broken)] if broken else []
    if not caused:
        return None
    return ends.finding(
        cause="uneven_end",
        summary=f"{left_text(caused)}; {len(broken)} of them failed of the broken connections at step {broken[0].step} "
        f"during {broken[0].activity}",
        detail=ADVICE
        if ran_exit_handlers(caused)
        else f"Look for `os._exit` or an `exec` in the code of the job. {ADVICE}",
        confidence=0.9,
        culprits=odd_ranks(caused, ends.snapshot.ranks),
        evidence=with_first_words(StallEvidence(), caused[0]),
    )


def _went_before(ends: Ends, leaver: RankState, others: list[RankState]) -> bool:
    """Return True if the rank left before the others failed, and they have made no step since.

    The others may need seconds to fail: they raise when the process of the leaver has ended.
    """
    left = began_seconds(leaver)
    if leaver.alive and leaver.last_words is None:
        left = leaver.activity_seconds
    if left + facts.TOGETHER_SECONDS < max(began_seconds(r) for r in others):
        return False
    return all(r.step_seconds >= left - _LEFT_SECONDS for r in others)
