"""The score of an intent and the outcome of an act, by what the job did afterwards (docs/act.md). Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from zmon.job.lease import Leases
from zmon.job.restarts import is_over
from zmon.schema.act import (
    ACTED,
    CAPTURE,
    DID_NOT_HELP,
    ENDED,
    KILL_CULPRIT,
    OUTCOME_UNKNOWN,
    RIGHT,
    STEPS_AGAIN,
    STOP_RESTARTS,
    UNANSWERED,
    UNCLEAR,
    WRONG,
    Intent,
)
from zmon.schema.job_snapshot import Snapshot

SCORE_SECONDS = 600.0  # what happens later has other reasons
# A launcher that has not started new ranks after this time will not: torchrun kills the other ranks 30 s after its
# SIGTERM, and new ranks import torch.
RELAUNCH_SECONDS = 120.0
INIT_SECONDS = Leases.init_seconds  # if the new launch has not finished a step by then, the act did not help


@dataclass(frozen=True)
class Score:
    """The numbers of intents of one cause, by their score."""

    right: int = 0
    wrong: int = 0
    unclear: int = 0
    open: int = 0  # not known yet


def scores(intents: Iterable[Intent]) -> dict[str, Score]:
    """Return the score of each cause. An intent that was carried out has no score, since its act changed the job."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for intent in filter(is_scored, intents):
        counts[intent.cause][intent.score or "open"] += 1
    return {cause: Score(**by_score) for cause, by_score in counts.items()}


def is_scored(intent: Intent) -> bool:
    """Return True if zmon itself did nothing, so that what followed shows whether the intent was right."""
    return intent.act != CAPTURE and intent.result not in (ACTED, UNANSWERED)


def with_score_or_outcome(intent: Intent, snapshot: Snapshot | None, now: float) -> Intent:
    """Return the intent with its score or its outcome, if this snapshot of its job shows it; None: there is no job."""
    if intent.act == CAPTURE or intent.score or intent.outcome:
        return intent
    if is_scored(intent):
        return msgspec.structs.replace(intent, score=_score(intent, snapshot, now))
    outcome = _outcome(intent, snapshot, now)
    return msgspec.structs.replace(intent, outcome=outcome, outcome_seconds=now - intent.onset) if outcome else intent


def _score(intent: Intent, snapshot: Snapshot | None, now: float) -> str:
    """Return the score, or "" while it is open."""
    is_late = now - intent.time >= SCORE_SECONDS
    if snapshot is None:
        return UNCLEAR if is_late else ""
    is_same_launch, has_ended = _is_same_launch(intent, snapshot), _has_ended(snapshot)
    if intent.act == STOP_RESTARTS:  # each start of a crash loop ends by itself, so only time shows whether it is over
        if _has_passed(intent, snapshot):
            return WRONG
        return (RIGHT if has_ended else UNCLEAR) if is_late else ""
    if is_same_launch and _has_passed(intent, snapshot):
        return WRONG  # the job went on by itself
    if not is_same_launch or has_ended or _is_culprit_gone(intent, snapshot):
        return RIGHT  # somebody else did what zmon would have done
    return UNCLEAR if is_late else ""


def _outcome(intent: Intent, snapshot: Snapshot | None, now: float) -> str:
    """Return the outcome of an act, or "" while it is open."""
    seconds = now - intent.time
    if snapshot is None:
        return OUTCOME_UNKNOWN if seconds >= INIT_SECONDS else ""
    if intent.act == KILL_CULPRIT:
        return _outcome_of_kill(intent, snapshot, seconds)
    if seconds < RELAUNCH_SECONDS:
        return ""  # a launcher may start the job again until then
    return ENDED if _is_same_launch(intent, snapshot) and _has_ended(snapshot) else DID_NOT_HELP


def _outcome_of_kill(intent: Intent, snapshot: Snapshot, seconds: float) -> str:
    """Return the outcome of a kill these seconds ago, or "" while the launcher may still start a new launch."""
    if not _is_same_launch(intent, snapshot):
        if all(r.steps for r in snapshot.ranks):
            return STEPS_AGAIN
        return DID_NOT_HELP if seconds >= INIT_SECONDS else ""
    if _has_passed(intent, snapshot):
        return STEPS_AGAIN
    first = snapshot.reported_ranks[0]
    may_restart = first.max_restarts is not None and first.restart_count < first.max_restarts
    if _has_ended(snapshot) and not may_restart:
        return ENDED
    return DID_NOT_HELP if seconds >= RELAUNCH_SECONDS else ""


def _is_same_launch(intent: Intent, snapshot: Snapshot) -> bool:
    first = snapshot.reported_ranks[0]
    return (first.launch_id, snapshot.attempt) == (intent.launch_id, intent.attempt)


def _has_passed(intent: Intent, snapshot: Snapshot) -> bool:
    """Return True if the job has finished the step at which it stood."""
    return intent.step is not None and bool(snapshot.ranks) and all(r.step > intent.step for r in snapshot.ranks)


def _is_culprit_gone(intent: Intent, snapshot: Snapshot) -> bool:
    """Return True if a rank at fault has ended; it was alive when the finding opened."""
    return intent.act == KILL_CULPRIT and any(not r.alive for r in snapshot.ranks if r.run_uid in intent.run_uids)


def _has_ended(snapshot: Snapshot) -> bool:
    """Return True if every rank of the launch is known to be gone. A rank that is not watched may live."""
    return is_over(snapshot) and not snapshot.unwatched and not snapshot.num_missing
