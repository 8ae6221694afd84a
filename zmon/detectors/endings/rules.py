"""Diagnose the end of a job: which rank ended first, why, and whether the launcher will restart the job.

The rules of `_FAULTS`, those about signals, then `_CONSEQUENCES` are tried in order; the first that applies decides. An
end is quiet only if the owner of the job caused it, or if all ranks finished.
"""

from __future__ import annotations

from collections.abc import Callable

from zmon.detectors.endings.agreed_exit import agreed_exit
from zmon.detectors.endings.connection_loss import connection_lost, lost_host
from zmon.detectors.endings.job_end import JobEnd, with_last_words
from zmon.detectors.endings.launcher import launcher_took_ranks
from zmon.detectors.endings.limits import EndLimits
from zmon.detectors.endings.memory import out_of_memory
from zmon.detectors.endings.rendezvous import rendezvous_failed
from zmon.detectors.endings.signal_order import Signals
from zmon.detectors.endings.signals import is_owners_end, partial_signal
from zmon.detectors.endings.size_mismatch import may_be_unreported, mismatch_finding, unreported_mismatch
from zmon.detectors.endings.storage_errors import disk_steps
from zmon.detectors.endings.uneven_end import uneven_end
from zmon.detectors.endings.wordless_end import may_be_end_by_framework, wordless_end
from zmon.detectors.wording import ranks_on
from zmon.job.aborts import hung_ranks
from zmon.job.facts import gone_seconds
from zmon.job.rank_end import awaits_its_launchers_status
from zmon.schema.evidence import StallEvidence
from zmon.schema.finding import Finding
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.rank import RankState

# The wait after a death that gloo may have caused while a living rank has not entered the same collective. By then its
# agent has reported what it entered: agents look ten times a second, and a report is up to a second late.
_REPORT_SECONDS = 1.5
# If all reported ranks ended this long ago, ranks that are missing had ended before them. Agents remove the box of a
# dead rank after 15 min, so the ranks of a job vanish one after the other.
_EXPIRING_SECONDS = 600.0


def exit_finding(snapshot: Snapshot, limits: EndLimits) -> Finding | None:
    """Return a finding about the death that ended the job; None if no death did, or if that is not clear yet."""
    end = JobEnd(snapshot, limits)
    if not end.ends or end.seconds_ago < limits.settle_seconds or _expires(end):
        return None
    if end.seconds_ago < limits.rest_seconds and any(map(awaits_its_launchers_status, end.ended)):
        return None  # the status will show whether the owner ended the launcher
    if end.seconds_ago < _REPORT_SECONDS and may_be_unreported(snapshot.ranks, end.ended):
        return None  # the reports of other hosts may still show a mismatch
    if may_be_end_by_framework(end):
        return wordless_end(end)
    if choice := agreed_exit(end):
        return choice
    if fault := _first_of(_FAULTS, end):
        return fault
    signals = Signals(end)
    if is_owners_end(signals):
        return None
    return partial_signal(signals) or _first_of(_CONSEQUENCES, end)


def _first_of(rules: tuple[Rule, ...], end: JobEnd) -> Finding | None:
    return next((finding for rule in rules if (finding := rule(end))), None)


def _expires(end: JobEnd) -> bool:
    """Return True if ranks are missing because they ended first, so that their black boxes were removed first."""
    if not end.snapshot.missing or end.living or end.snapshot.unwatched:
        return False
    return min(map(gone_seconds, end.ended)) >= _EXPIRING_SECONDS


def _first_fault(end: JobEnd) -> Finding | None:
    """Return a finding about the ranks that were killed or raised first."""
    if not end.culprits:
        return None
    first = end.culprits[0]
    raised = first.last_words is not None and first.last_words.kind == "exception"
    # torch's teardown aborts a rank now and then, although the training had finished.
    have_all_finished = not raised and all(r.activity == "done" for r in end.snapshot.ranks)
    memory = out_of_memory(end.snapshot, first)
    note = f" (process {first.pid} has not ended yet)" if first.alive else ""
    if first in hung_ranks(end.snapshot.ranks):
        note = " (the others had waited for it, and ended first)"
    return end.finding(
        cause="rank_exited",
        summary=f"rank {first.rank} on {first.host} exited at step {first.step} during {first.activity}: "
        f"{_last_message(first)}{f' ({memory})' if memory else note}",
        detail=_next_steps(first, have_all_finished, memory),
        confidence=0.95,
        culprits=end.culprits,
        severity="warning" if have_all_finished else None,
        outlook="the training had finished" if have_all_finished else None,
        evidence=with_last_words(StallEvidence(out_of_memory=memory), first),
    )


def _next_steps(culprit: RankState, have_all_finished: bool, memory: str | None) -> str:
    """Return the advice about a rank that failed first; `memory` is the proof that it ran out of memory."""
    if have_all_finished:
        return f"All ranks had finished. Is the last checkpoint complete? The job's log on {culprit.host} has more."
    if memory:
        return (
            f"On {culprit.host}: `dmesg -T | grep -i -A20 'out of memory'` shows which processes used how much memory. "
            "Give the ranks more memory, or reduce their use (fewer loader workers, smaller batches or caches), and "
            "restart the job."
        )
    if disk := disk_steps(culprit):
        return disk
    return (
        f"Read the end of rank {culprit.rank}'s log, then the kernel's on {culprit.host}: `dmesg -T | tail -50` "
        "(out of memory? GPU error?). Restart the job from its last checkpoint."
    )


def _last_message(state: RankState) -> str:
    """Return the exception of the rank and its place, or else its exit status."""
    words = state.last_words
    if words and words.kind == "exception":
        return f"{words.error} (in {words.where})" if words.where else words.error
    return state.exit_status or "killed without last words"


def _unclear_end(end: JobEnd) -> Finding | None:
    """Return a warning if all ranks ended without last words, and no agent knows how."""
    if not end.is_unclear or end.seconds_ago < end.limits.rest_seconds:
        return None  # their parent may still read their exit statuses, which an agent then learns from the kernel
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
        evidence=with_last_words(StallEvidence(), first),
    )


Rule = Callable[[JobEnd], Finding | None]

# What a rank or the launcher did by itself, whatever the owner did afterwards.
_FAULTS: tuple[Rule, ...] = (
    mismatch_finding,  # its victims raise, so it comes before the exceptions
    unreported_mismatch,
    _first_fault,
    launcher_took_ranks,  # its ranks look as if they had been cancelled
)
# What ended a job in which no rank failed by itself, and which its owner did not end.
_CONSEQUENCES: tuple[Rule, ...] = (
    _unclear_end,
    uneven_end,  # a rank that left breaks connections
    rendezvous_failed,
    lost_host,
    connection_lost,  # nothing else explains the broken connections
)
