"""Judge a stall that only silence proves: most pauses end by themselves, so the severity follows from the time.

The finding opens as a warning when the leases end, because nothing tells a pause from a hang then. It becomes critical
once the job has stood still for longer than pauses do. A pause that stays within those that healed at the same place
before is reported as `info`: it is visible at once and alerts nobody. The summary says at which lines of the job's code
the ranks stand. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from zmon.detectors.hangs.awaited_ranks import has_one_rank, movers
from zmon.detectors.hangs.early import looked_at
from zmon.detectors.hangs.limits import HangLimits
from zmon.detectors.wording import ranks_text, verb
from zmon.format import duration, size
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.names import SILENCE, STACKS, Severity
from zmon.schema.pause import Place, Silence
from zmon.schema.rank import RankState
from zmon.schema.standing import Standing, WorkSigns

# The time after the end of a lease in which the stacks of the awaited ranks arrive. py-spy takes 20 ms, the worker
# server up to 2 s.
_PLACE_SECONDS = 2.0
_MAX_PLACES = 3  # more differ from rank to rank; the stacks are in the finding
# A rank that changed its phase or entered a collective this recently has left its pause, although its step is not over
# yet. It is less than the shortest lease of training.
_MOVED_SECONDS = 1.0
# The share of the time until a silence is critical in which looks must show that nothing changes, if they are to prove
# it: they begin when the job stands still already.
_UNCHANGED_RATIO = 0.5
_UNCHANGED = "it waits for a lock, a pipe or a child, and nothing in it has changed"
_PROMPT = "it stands at the prompt of a debugger (pdb), and nothing in it has changed"


def judge(snapshot: Snapshot, awaited: Sequence[RankState], limits: HangLimits) -> tuple[Severity, Silence]:
    """Judge the silence of a job whose ranks all stand still; they wait for the `awaited` ranks."""
    moving = movers(snapshot)
    seconds = min((_still_seconds(r) for r in moving), default=0.0)
    overdue = max((r.overdue_seconds for r in moving), default=0.0)
    places = tuple(sorted({Place(_phase(r), frame) for r in awaited if (frame := snapshot.frames.get(r.rank))}))
    healed = _healed_seconds(snapshot, places)
    at_place = "" if healed is None else f" (a pause of {duration(healed)} at this place healed before)"
    critical = max(limits.critical_seconds, limits.critical_pause_ratio * (healed or 0.0))
    critical = min(critical, limits.critical_at_most_seconds)

    looks = looked_at(snapshot, awaited)

    def judged(severity: Severity, reason: str, proof: str = SILENCE) -> tuple[Severity, Silence]:
        return severity, Silence(round(seconds, 3), critical, places, healed, reason, proof)

    # If all ranks wait alike, each may wait for another one, in a collective of C++. A single rank has no other one.
    is_own_wait = len(awaited) < len(moving) or has_one_rank(snapshot)
    waiting = min((_proof_seconds(standing, is_own_wait) for _, standing in looks), default=0.0)
    if waiting >= limits.proof_seconds:
        served = any(standing.waits_for_server for _, standing in looks)
        unchanged_text = _PROMPT if any(standing.in_debugger for _, standing in looks) else _UNCHANGED
        what = "a server or driver has not answered" if served else unchanged_text
        return judged("critical", f"critical, because {what} for {duration(waiting)}", SILENCE if served else STACKS)
    unchanged = min((r.state_seconds for r in awaited), default=seconds)
    if overdue >= limits.moving_at_most_seconds:
        return judged("critical", f"critical {duration(limits.moving_at_most_seconds)} after the end of the leases")
    if seconds >= critical and (at_work := [(r, work) for r, standing in looks if (work := standing.work)]):
        state, work = at_work[0]
        return judged("warning", f"it is not critical yet, because {ranks_text([state.rank])} {work_text(work)}")
    if overdue <= 0 and seconds >= critical:  # shown ahead of their leases, by less than a proof
        return judged("warning", "it becomes critical when the leases end")
    if min(seconds, unchanged) >= critical:
        same = len(looks) == len(awaited) and all(_is_unchanged(standing, critical) for _, standing in looks)
        return judged("critical", f"critical after {duration(critical)}{at_place}", STACKS if same else SILENCE)
    pages = f"it becomes critical after {duration(critical)}"
    if seconds >= critical:
        who, move = ranks_text([r.rank for r in awaited]), verb(awaited, "changes its", "change their")
        return judged("warning", f"it is not critical yet, because {who} still {move} phase")
    if healed is not None and seconds <= limits.quiet_pause_ratio * healed:
        return judged("info", f"{pages}{at_place}")
    known = places and not all(_has_moved(r) for r in awaited)
    if not known and overdue < _PLACE_SECONDS and _may_be_ordinary(snapshot, awaited, seconds, limits):
        return judged("info", f"{pages} (pauses of this length healed before)")
    return judged("warning", f"{pages}{at_place}")


def _is_unchanged(standing: Standing, critical: float) -> bool:
    """Return True if nothing has changed in a rank for long; a server that it waits for may still answer."""
    return not standing.waits_for_server and standing.unchanged_seconds >= _UNCHANGED_RATIO * critical


def _proof_seconds(standing: Standing, is_own_wait: bool) -> float:
    """Return for how long a rank has been in a wait that nothing seems to end; 0 if it is in none."""
    if standing.waits_for_server:
        return standing.asleep_seconds
    return standing.unchanged_seconds if is_own_wait and standing.waits_for_its_host else 0.0


def work_text(work: WorkSigns) -> str:
    """Return what a rank does that shows that it works, such as `writes 310 MB/s, last to /ckpt/rank-0.pt`."""
    rates = [
        ("writes", work.written_bytes_per_second, f", last to {work.file}" if work.file else ""),
        ("reads", work.read_bytes_per_second, ""),
        ("moves", work.network_bytes_per_second, " over TCP"),
    ]
    verb_, rate, where = max(rates, key=lambda each: each[1])
    return f"{verb_} {size(rate)}/s{where}" if rate else "runs other functions from look to look"


def places_text(snapshot: Snapshot, culprits: Sequence[RankState]) -> str:
    """Return the frame of each culprit, or, without a culprit, of the ranks that live; empty if none is known.

    The frames are those of the stacks that the hub has; they arrive some seconds after the finding opened.
    """
    alive = movers(snapshot)
    by_frame: dict[str, list[int]] = {}
    for r in culprits or alive:
        if frame := snapshot.frames.get(r.rank):
            by_frame.setdefault(frame, []).append(r.rank)
    if len(by_frame) > _MAX_PLACES:
        return ""
    return "".join(f"; {_subject(ranks, len(alive))} in {frame}" for frame, ranks in by_frame.items())


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


def _may_be_ordinary(snapshot: Snapshot, awaited: Sequence[RankState], seconds: float, limits: HangLimits) -> bool:
    """Return True if pauses of this length healed in the phase of every awaited rank that still stands in one."""
    healed = {p.place.phase for p in snapshot.pauses if seconds <= limits.quiet_pause_ratio * p.longest_seconds}
    return bool(healed and awaited) and all(_phase(r) in healed or _has_moved(r) for r in awaited)


def _has_moved(state: RankState) -> bool:
    return state.state_seconds < _MOVED_SECONDS


def _subject(ranks: list[int], num_alive: int) -> str:
    if 1 < len(ranks) == num_alive:
        return f"all {num_alive} ranks stand"
    return f"{ranks_text(ranks)} {verb(ranks, 'stands', 'stand')}"
