"""Find the rank that left cleanly (exit code 0) while the others went on, and so made them fail or wait.

Uneven inputs do this: one rank has fewer batches than the others. A rank that finishes first while the others finish
too is no fault, nor is a rank that leaves early and is not missed.
"""

from __future__ import annotations

from zmon.detectors.endings.job_end import JobEnd, with_last_words
from zmon.detectors.leavers import ADVICE, left_text, living_leavers, odd_ranks, ran_exit_handlers
from zmon.job.facts import LOOK_SECONDS, Fact, FactKind, before, began_to_end
from zmon.job.rank_end import Way
from zmon.schema.evidence import StallEvidence
from zmon.schema.finding import Finding
from zmon.schema.rank import RankState

# A rank that leaves takes the others along only if they have made no step since this long before it left.
_LEFT_SECONDS = 5.0


def uneven_end(end: JobEnd) -> Finding | None:
    """Return a finding about ranks that left while others went on; None if no rank failed or waits because of that."""
    ended = {r.rank for r in end.ended}
    left = [*end.ended_as(Way.FINISHED), *(r for r in living_leavers(end.snapshot.ranks) if r.rank not in ended)]
    broken = end.ended_as(Way.DISCONNECTED, Way.NOT_MET)
    caused = [leaver for leaver in left if _went_before(leaver, broken)] if broken else []
    if not caused:
        return None
    return end.finding(
        cause="uneven_end",
        summary=f"{left_text(caused)}; {len(broken)} of them failed because connections broke at step "
        f"{broken[0].step} during {broken[0].activity}",
        detail=ADVICE
        if ran_exit_handlers(caused)
        else f"Look for `os._exit` or an `exec` in the code of the job. {ADVICE}",
        confidence=0.9,
        culprits=odd_ranks(caused, end.snapshot.ranks),
        evidence=with_last_words(StallEvidence(), caused[0]),
    )


def _went_before(leaver: RankState, others: list[RankState]) -> bool:
    """Return True if the rank left before the others failed, and they have made no step since.

    The others may need seconds to fail: they raise when the process of the leaver has ended.
    """
    left = began_to_end(leaver)
    if leaver.alive and leaver.last_words is None:
        left = Fact(FactKind.LEFT, leaver.host, -leaver.activity_seconds)
    # The leaver closes its connections before its last words.
    if before(began_to_end(others[0]), left, LOOK_SECONDS - left.uncertainty):
        return False
    return all(-r.step_seconds <= left.latest + _LEFT_SECONDS for r in others)
