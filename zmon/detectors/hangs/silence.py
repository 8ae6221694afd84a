"""Judge a stall that only silence proves: most pauses end by themselves, so the severity follows from the time.

The finding opens as a warning when the leases end, because nothing tells a pause from a hang then. It becomes critical
once the job has stood still for longer than pauses do. A pause that stays within those that healed at the same place
before is reported as `info`: it is visible at once and alerts nobody. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from zmon.detectors.wording import ranks_text, verb
from zmon.format import duration
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.names import Severity
from zmon.schema.pause import Place, Silence
from zmon.schema.rank import RankState
from zmon.schema.thresholds import Multiple, Thresholds

# The part of a summary that `judge` writes while the silence is not critical begins with one of these.
_BECOMES_CRITICAL = "it becomes critical after"
_NOT_YET_CRITICAL = "it is not critical yet, because"
_OUTLOOK = re.compile(f"; (?:{_BECOMES_CRITICAL}|{_NOT_YET_CRITICAL}) [^;]*")


@dataclass(frozen=True)
class Patience(Thresholds):
    """Thresholds of the part of the stall detector that judges silence."""

    # The time without progress after which silence is critical, at the earliest. The first compilation, the first save
    # that no hook sees, and loader workers that start take seconds; GPUs that idle for 20 s cost little.
    critical_seconds: float = 20.0
    # Silence is critical after this value × the longest pause that healed at the same place, if that is later. The next
    # save of a growing state, or on a busier file system, takes longer than those before.
    critical_pause_ratio: Multiple = 3.0
    # Silence is critical after this time at the latest, whatever was learned. One long pause that a person ended must
    # not hide the next hang for long.
    critical_at_most_seconds: float = 300.0
    # A pause up to this value × the longest one that healed at the same place alerts nobody. Pauses that recur at every
    # epoch or save differ by less.
    quiet_pause_ratio: Multiple = 1.5
    # The time after the end of a lease in which the stacks of the awaited ranks arrive. py-spy takes 20 ms, the worker
    # server up to 2 s.
    place_seconds: float = 2.0
    # A rank that changed its phase or entered a collective this recently has left its pause, although its step is not
    # over yet. It is less than the shortest lease of training.
    moved_seconds: float = 1.0
    # Awaited ranks that still change their phase or enter collectives do not hang: they evaluate without eval mode, or
    # collect more batches for a step. If no step ends for this time, it is critical all the same. It is the longest
    # lease of an evaluation.
    moving_at_most_seconds: float = 1800.0


@dataclass(frozen=True, slots=True)
class Judgement:
    """The severity of a silence, and the reason for it as the end of a sentence."""

    severity: Severity
    reason: str
    silence: Silence


def judge(snapshot: Snapshot, awaited: Sequence[RankState], patience: Patience) -> Judgement:
    """Judge the silence of a job whose ranks all stand still; they wait for the `awaited` ranks."""
    moving = [r for r in snapshot.ranks if r.alive and r.activity != "done"]
    seconds = min((_still_seconds(r) for r in moving), default=0.0)
    overdue = max((r.overdue_seconds for r in moving), default=0.0)
    places = tuple(sorted({Place(_phase(r), frame) for r in awaited if (frame := snapshot.frames.get(r.rank))}))
    healed = _healed_seconds(snapshot, places)
    at_place = "" if healed is None else f" (a pause of {duration(healed)} at this place healed before)"
    critical = max(patience.critical_seconds, patience.critical_pause_ratio * (healed or 0.0))
    critical = min(critical, patience.critical_at_most_seconds)
    silence = Silence(round(seconds, 3), critical, places, healed)
    unchanged = min((r.state_seconds for r in awaited), default=seconds)
    if min(seconds, unchanged) >= critical or seconds >= patience.moving_at_most_seconds:
        return Judgement("critical", f"critical after {duration(critical)}{at_place}", silence)
    pages = f"{_BECOMES_CRITICAL} {duration(critical)}"
    if seconds >= critical:
        still_moving = (
            f"{ranks_text([r.rank for r in awaited])} still {verb(awaited, 'changes its', 'change their')} phase"
        )
        return Judgement("warning", f"{_NOT_YET_CRITICAL} {still_moving}", silence)
    if healed is not None and seconds <= patience.quiet_pause_ratio * healed:
        return Judgement("info", f"{pages}{at_place}", silence)
    known = places and not all(_has_moved(r, patience) for r in awaited)
    if not known and overdue < patience.place_seconds and _may_be_ordinary(snapshot, awaited, seconds, patience):
        return Judgement("info", f"{pages} (pauses of this length healed before)", silence)
    return Judgement("warning", f"{pages}{at_place}", silence)


def without_outlook(summary: str) -> str:
    """Return the summary of a finding that another fault made critical, without the time at which it becomes so."""
    return _OUTLOOK.sub("", summary)


def _still_seconds(state: RankState) -> float:
    """Return the time since the last progress of a rank: a step in training, the begin of any other activity."""
    return state.step_seconds if state.activity == "train" else state.activity_seconds


def _phase(state: RankState) -> str:
    if state.in_flight is not None:
        return state.in_flight.op
    return state.phase if state.activity == "train" else state.activity


def _healed_seconds(snapshot: Snapshot, places: Sequence[Place]) -> float | None:
    """Return the longest pause that healed at all these places; None if none healed at one of them."""
    longest = {pause.place: pause.longest_seconds for pause in snapshot.pauses}
    if not places or any(place not in longest for place in places):
        return None
    return min(longest[place] for place in places)


def _may_be_ordinary(snapshot: Snapshot, awaited: Sequence[RankState], seconds: float, patience: Patience) -> bool:
    """Return True if pauses of this length healed in the phase of every awaited rank that still stands in one."""
    healed = {p.place.phase for p in snapshot.pauses if seconds <= patience.quiet_pause_ratio * p.longest_seconds}
    return bool(healed and awaited) and all(_phase(r) in healed or _has_moved(r, patience) for r in awaited)


def _has_moved(state: RankState, patience: Patience) -> bool:
    return state.state_seconds < patience.moved_seconds
