"""Report the end of a job of which nothing shows who caused it: its owner, or whatever kills processes."""

from __future__ import annotations

from zmon.detectors.endings.job_end import JobEnd, with_first_words
from zmon.detectors.wording import ranks_on
from zmon.schema.evidence import StallEvidence
from zmon.schema.finding import Finding


def unclear_end(end: JobEnd) -> Finding | None:
    """Return a warning if all ranks ended without last words, and no agent knows how."""
    if not end.unclear or end.seconds_ago < end.limits.rest_seconds:
        return None  # their parent may still read their exit statuses, which the kernel then tells
    first = end.ended[0]
    why = "" if all(r.watched for r in end.ended) else ", while no agent watched them"
    return end.finding(
        cause="unknown",
        severity="warning",
        summary=f"{ranks_on(end.ended)} ended at step {first.step} without last words{why}: the owner ended the job, "
        "or something killed all its ranks at once",
        detail=f"If the owner did not end the job: read the end of the job's log, and on {first.host} `dmesg -T | "
        "tail -50` (out of memory?) and `journalctl --since -10min`. Since Linux 6.15 an agent that watches a rank "
        "knows how it ended.",
        confidence=0.3,
        evidence=with_first_words(StallEvidence(), first),
    )
