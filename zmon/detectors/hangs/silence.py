"""Judge a stall that only silence proves: most pauses end by themselves, so the severity follows from the time.

When the leases end, nothing tells a pause from a hang, so the finding opens as a warning. It becomes critical once the
job has stood still for longer than pauses do. A pause that is no longer than those that healed at the same place is
reported as `info`: it is visible at once and alerts nobody. The summary says at which lines of the job's code the ranks
stand. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from zmon.detectors.hangs.awaited_ranks import has_one_rank
from zmon.detectors.hangs.early import with_standing
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
# Looks prove a silence if they show no change for this share of the time after which it is critical. They cannot show
# more, because they begin when the job already stands still.
_UNCHANGED_RATIO = 0.5
_UNCHANGED = "it waits for a lock, a pipe or a child, and nothing in it has changed"
_PROMPT = "it stands at the prompt of a debugger (pdb), and nothing in it has changed"


@dataclass(frozen=True)
class _Stillness:
    """A job whose ranks all stand still, with what is known about its pause."""

    snapshot: Snapshot
    awaited: Sequence[RankState]  # the ranks that the others wait for
    standings: Sequence[tuple[RankState, Standing]]  # of the awaited ranks that the hub has looked at
    may_wait_for_others: bool  # the awaited ranks may wait for each other, so that a wait of one proves nothing
    seconds: float  # since the last progress of any rank
    overdue_seconds: float  # since the end of the first lease
    critical_seconds: float  # the silence is critical after this time
    places: tuple[Place, ...]  # of the awaited ranks; empty: unknown
    healed_seconds: float | None  # the longest pause that healed at these places; None: none is known

    @property
    def healed_text(self) -> str:
        """The pause that healed at the same place, for a reason; empty if none is known."""
        if self.healed_seconds is None:
            return ""
        return f" (a pause of {duration(self.healed_seconds)} at this place healed before)"


class _Judgement(NamedTuple):
    """The severity of a silence, the reason in words, and what proves that the job will not go on."""

    severity: Severity
    reason: str
    proof: str = SILENCE


def judge(snapshot: Snapshot, awaited: Sequence[RankState], limits: HangLimits) -> tuple[Severity, Silence]:
    """Judge the silence of a job whose ranks all stand still; they wait for the `awaited` ranks."""
    moving = snapshot.unfinished_ranks
    places = tuple(sorted({Place(_phase(r), frame) for r in awaited if (frame := snapshot.frames.get(r.rank))}))
    healed = _healed_seconds(snapshot, places)
    critical = max(limits.critical_seconds, limits.critical_pause_ratio * (healed or 0.0))
    still = _Stillness(
        snapshot,
        awaited,
        with_standing(snapshot, awaited),
        # If all ranks wait alike, each may wait for another one, in a collective of C++. A single rank has no other.
        may_wait_for_others=len(awaited) >= len(moving) and not has_one_rank(snapshot),
        seconds=min((r.progress_seconds for r in moving), default=0.0),
        overdue_seconds=max((r.overdue_seconds for r in moving), default=0.0),
        critical_seconds=min(critical, limits.critical_at_most_seconds),
        places=places,
        healed_seconds=healed,
    )
    judgement = _endless_wait(still, limits) or _long_overdue(still, limits)
    if judgement is None:
        judgement = _long_silence(still) if still.seconds >= still.critical_seconds else _short_silence(still, limits)
    # Nobody waits for the last ranks of a job that has finished, and a launcher would start it again after an act.
    has_finished = any(r.activity == "done" for r in snapshot.ranks)
    return judgement.severity, Silence(
        seconds=round(still.seconds, 3), critical_seconds=still.critical_seconds, places=places, healed_seconds=healed,
        reason=judgement.reason, proof=SILENCE if has_finished else judgement.proof,
    )  # fmt: skip


def _endless_wait(still: _Stillness, limits: HangLimits) -> _Judgement | None:
    """Judge waits that nothing seems to end: all awaited ranks have been in one for `proof_seconds`; else None."""
    standings = [standing for _, standing in still.standings]
    waiting = min((_endless_seconds(standing, still.may_wait_for_others) for standing in standings), default=0.0)
    if waiting < limits.proof_seconds:
        return None
    is_served = any(standing.waits_for_server for standing in standings)
    what = "a server or driver has not answered"
    if not is_served:
        what = _PROMPT if any(standing.in_debugger for standing in standings) else _UNCHANGED
    return _Judgement("critical", f"critical, because {what} for {duration(waiting)}", SILENCE if is_served else STACKS)


def _endless_seconds(standing: Standing, may_wait_for_others: bool) -> float:
    """Return for how long a rank has been in a wait that nothing seems to end; 0 if it is in none."""
    if standing.waits_for_server:
        return standing.asleep_seconds
    return standing.unchanged_seconds if standing.waits_for_its_host and not may_wait_for_others else 0.0


def _long_overdue(still: _Stillness, limits: HangLimits) -> _Judgement | None:
    """Judge a job that has been overdue for so long that it is critical even if ranks move; else None."""
    if still.overdue_seconds < limits.moving_at_most_seconds:
        return None
    return _Judgement("critical", f"critical {duration(limits.moving_at_most_seconds)} after the end of the leases")


def _long_silence(still: _Stillness) -> _Judgement:
    """Judge a silence that is long enough to be critical, unless ranks work or move, or the leases have not ended."""
    working = [(r, standing.work) for r, standing in still.standings if standing.work]
    if working:
        state, work = working[0]
        return _Judgement("warning", f"it is not critical yet, because {ranks_text([state.rank])} {_work_text(work)}")
    if still.overdue_seconds <= 0:  # looks showed the hang ahead of the leases, and do not prove it yet
        return _Judgement("warning", "it becomes critical when the leases end")
    critical = still.critical_seconds
    if min((r.state_seconds for r in still.awaited), default=still.seconds) < critical:
        who = ranks_text([r.rank for r in still.awaited])
        changes = verb(still.awaited, "changes its", "change their")
        return _Judgement("warning", f"it is not critical yet, because {who} still {changes} phase")
    all_looked_at = len(still.standings) == len(still.awaited)
    is_same = all_looked_at and all(_is_unchanged(standing, critical) for _, standing in still.standings)
    reason = f"critical after {duration(critical)}{still.healed_text}"
    return _Judgement("critical", reason, STACKS if is_same else SILENCE)


def _short_silence(still: _Stillness, limits: HangLimits) -> _Judgement:
    """Judge a silence that is not critical yet: it alerts nobody if a pause of this length healed before."""
    reason = f"it becomes critical after {duration(still.critical_seconds)}"
    if still.healed_seconds is not None and still.seconds <= limits.quiet_pause_ratio * still.healed_seconds:
        return _Judgement("info", f"{reason}{still.healed_text}")
    is_place_known = still.places and not all(_has_moved(r) for r in still.awaited)
    if not is_place_known and still.overdue_seconds < _PLACE_SECONDS and _may_be_ordinary(still, limits):
        return _Judgement("info", f"{reason} (pauses of this length healed before)")
    return _Judgement("warning", f"{reason}{still.healed_text}")


def _is_unchanged(standing: Standing, critical_seconds: float) -> bool:
    """Return True if nothing has changed in a rank for long; a server that it waits for may still answer."""
    return not standing.waits_for_server and standing.unchanged_seconds >= _UNCHANGED_RATIO * critical_seconds


def _work_text(work: WorkSigns) -> str:
    """Return what a rank does that shows that it works, such as `writes 310 MB/s, last to /ckpt/rank-0.pt`."""
    rates = [
        ("writes", work.written_bytes_per_second, f", last to {work.file}" if work.file else ""),
        ("reads", work.read_bytes_per_second, ""),
        ("moves", work.network_bytes_per_second, " over TCP"),
    ]
    work_verb, rate, where = max(rates, key=lambda row: row[1])
    return f"{work_verb} {size(rate)}/s{where}" if rate else "runs other functions from look to look"


def places_text(snapshot: Snapshot, culprits: Sequence[RankState]) -> str:
    """Return the frame of each culprit, or, without a culprit, of the ranks that live; empty if none is known.

    The frames are those of the stacks that the hub has; they arrive some seconds after the finding opened.
    """
    alive = snapshot.unfinished_ranks
    by_frame: dict[str, list[int]] = {}
    for r in culprits or alive:
        if frame := snapshot.frames.get(r.rank):
            by_frame.setdefault(frame, []).append(r.rank)
    if len(by_frame) > _MAX_PLACES:
        return ""
    return "".join(f"; {_subject(ranks, len(alive))} in {frame}" for frame, ranks in by_frame.items())


def _phase(state: RankState) -> str:
    """Return what the rank is in: a collective, a phase of a training step, or another activity."""
    if state.in_flight is not None:
        return state.in_flight.op
    return state.phase if state.activity == "train" else state.activity


def _healed_seconds(snapshot: Snapshot, places: Sequence[Place]) -> float | None:
    """Return the longest pause that healed at all these places; None if none healed at one of them."""
    longest = {pause.place: pause.longest_seconds for pause in snapshot.pauses}
    if not places or any(place not in longest for place in places):
        return None
    return min(longest[place] for place in places)


def _may_be_ordinary(still: _Stillness, limits: HangLimits) -> bool:
    """Return True if pauses of this length healed in the phase of every awaited rank that still stands in one."""
    pauses, awaited = still.snapshot.pauses, still.awaited
    healed = {p.place.phase for p in pauses if still.seconds <= limits.quiet_pause_ratio * p.longest_seconds}
    return bool(healed and awaited) and all(_phase(r) in healed or _has_moved(r) for r in awaited)


def _has_moved(state: RankState) -> bool:
    return state.state_seconds < _MOVED_SECONDS


def _subject(ranks: list[int], num_alive: int) -> str:
    """Return the beginning of a sentence that says where ranks stand."""
    if num_alive > 1 and len(ranks) == num_alive:
        return f"all {num_alive} ranks stand"
    return f"{ranks_text(ranks)} {verb(ranks, 'stands', 'stand')}"
