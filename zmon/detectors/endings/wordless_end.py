"""Judge ranks that all ended with exit code 1 and without last words, while no rank waited for another one. Pure.

Ray ends its actors in this way after their work. Usually zmon sees how the work itself ended
(zmon/probe/hooks/runners.py). If it does not, the work may have failed. A launcher that exits with code 0 shows that it
did not.
"""

from __future__ import annotations

from zmon.detectors.endings.job_end import JobEnd, with_last_words
from zmon.detectors.wording import ranks_on
from zmon.schema.evidence import StallEvidence
from zmon.schema.finding import Finding
from zmon.schema.rank import RankState

_WORKING = ("train", "eval")  # not "checkpoint": a rank that ends during a save has not finished its work


def may_be_end_by_framework(end: JobEnd) -> bool:
    """Return True if a framework may have ended all ranks after their work, whether the work went well or not."""
    ranks = end.ended
    if not end.is_complete or len({r.step for r in ranks}) > 1 or not all(map(_ended_like_an_actor_of_ray, ranks)):
        return False
    return all(r.launcher_status in (None, "exit code 0") for r in ranks)  # another status shows a failure


def wordless_end(end: JobEnd) -> Finding | None:
    """Return a warning about an end for which `may_be_end_by_framework` is True.

    None if all launchers ended well, or if a launcher may still show how it ended.
    """
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


def _ended_like_an_actor_of_ray(state: RankState) -> bool:
    """Return True if the rank ended between two steps, with exit code 1, without last words, and nobody restarts it."""
    is_between_steps = state.in_flight is None and state.phase == "other" and state.activity in _WORKING
    is_wordless = state.last_words is None and state.exit_status == "exit code 1" and state.max_restarts is None
    return is_between_steps and is_wordless and state.steps > 0
