"""Judge ranks that all left with the same exit code after the same step, without an exception. Pure.

A job that wants to be queued again, or that ends before a time limit, leaves like this: its ranks agree on the end in a
collective, and the scheduler, or a script around the job, knows the code.
"""

from __future__ import annotations

from zmon.detectors.endings.job_end import JobEnd, with_last_words
from zmon.job.rank_end import CANCELLED_STATUS
from zmon.job.sequences import entered_counts
from zmon.job.signals import CANCELLED_CODES
from zmon.schema.evidence import StallEvidence
from zmon.schema.finding import Finding
from zmon.schema.rank import RankState

_NOT_AGREED = (0, 1, *CANCELLED_CODES)  # 1 is what Python and most programs return after any failure


def agreed_exit(end: JobEnd) -> Finding | None:
    """Return a warning that names nobody if all ranks left with such a code; None if a rank may have failed first.

    Ranks that failed one after the other have entered different numbers of collectives, or were in a collective.
    """
    ranks = end.ended
    codes = {_code(r) for r in ranks}
    if not end.is_complete or len(ranks) < 2 or len(codes) > 1 or None in codes:
        return None
    if not all(map(_is_between_steps, ranks)) or len({r.step for r in ranks}) > 1:
        return None
    if any(entered_counts(r) != entered_counts(ranks[0]) for r in ranks):
        return None
    code = codes.pop()
    return end.finding(
        cause="unknown",
        severity="warning",
        summary=f"all {len(ranks)} ranks left with exit code {code} after the same step, in no collective and without "
        f"an exception, at step {ranks[0].step}: the job chose this end, or it failed on all of them",
        detail=f"Does the job or its scheduler know exit code {code}, such as a request to be queued again? If not: "
        "look for this code, `sys.exit` and `os._exit` in the job, and read the end of its log.",
        confidence=0.3,
        evidence=with_last_words(StallEvidence(), ranks[0]),
    )


def _code(state: RankState) -> int | None:
    """Return the code that the rank chose; None if it ended in another way.

    A launcher may signal a rank that has left its last words and is about to end.
    """
    words, status = state.last_words, state.exit_status
    if words is None:
        text = (status or "").removeprefix("exit code ")
    elif words.type == "builtins.SystemExit" and not words.root and words.sender_pid is None:
        text = words.message if status in (None, f"exit code {words.message}", *CANCELLED_STATUS) else ""
    else:
        return None
    return int(text) if text.isdecimal() and int(text) not in _NOT_AGREED else None


def _is_between_steps(state: RankState) -> bool:
    """Return True if the rank was past its start and in no collective. At the start, argparse exits with code 2."""
    is_past_start = state.steps > 0 and state.activity != "init"
    return is_past_start and state.in_flight is None and state.phase == "other"
