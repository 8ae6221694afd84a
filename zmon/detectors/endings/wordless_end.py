"""Judge ranks that all ended with exit code 1 and without last words, although no rank waited for another one. Pure.

Ray ends its actors like this after their work. If zmon does not see how the work itself ended
(zmon/probe/hooks/runners.py), the work may have failed. A launcher that ends well confirms that it did not.
"""

from __future__ import annotations

from zmon.detectors.endings.job_end import JobEnd, with_last_words
from zmon.detectors.wording import ranks_on
from zmon.schema.evidence import StallEvidence
from zmon.schema.finding import Finding
from zmon.schema.rank import RankState

_TRAINING = ("train", "eval")  # a save that is not done proves no end of the work


def may_be_runners_end(end: JobEnd) -> bool:
    """Return True if a framework may have ended all ranks after their work, whether that went well or not."""
    ranks = end.ended
    if not end.is_complete or len({r.step for r in ranks}) > 1 or not all(map(_ended_between_steps, ranks)):
        return False
    return all(r.launcher_status in (None, "exit code 0") for r in ranks)


def wordless_end(end: JobEnd) -> Finding | None:
    """Return a warning about such an end; None if the launcher ended well, or may still tell how it ended."""
    if end.seconds_ago < end.limits.rest_seconds or all(r.launcher_status is not None for r in end.ended):
        return None
    first = end.ended[0]
    return end.finding(
        cause="unknown",
        severity="warning",
        summary=f"{ranks_on(end.ended)} ended with {first.exit_status} after the same step, in no collective and "
        f"without last words, at step {first.step}: a framework such as Ray ended them after their work, or it failed "
        "on all of them",
        detail="If the job did not finish: the framework's log has the exception that it caught. zmon sees such "
        "exceptions in Ray Train and in Python's pools of processes.",
        confidence=0.3,
        evidence=with_last_words(StallEvidence(), first),
    )


def _ended_between_steps(state: RankState) -> bool:
    """Return True if the rank was between two steps, and ended as Ray ends an actor."""
    is_between = state.in_flight is None and state.phase == "other" and state.activity in _TRAINING
    is_ended = state.last_words is None and state.exit_status == "exit code 1" and state.max_restarts is None
    return is_between and is_ended and state.steps > 0
