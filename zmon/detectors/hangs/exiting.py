"""Report ranks whose program has ended, and whose processes do not: they hold their GPUs for nothing. Pure.

At its exit, Python waits for threads, calls the exit handlers of libraries and destroys objects. A library may upload
meanwhile, so a process that works is reported late. Ranks that a framework runs, such as Ray, or a pool of processes,
have not ended: their process may get more work.
"""

from __future__ import annotations

from zmon.detectors.hangs.early import with_standing
from zmon.detectors.hangs.limits import HangLimits
from zmon.detectors.new_finding import new_finding
from zmon.detectors.wording import ranks_on, verb
from zmon.format import duration
from zmon.job.rank_end import Way, way_of
from zmon.schema.evidence import StallEvidence
from zmon.schema.finding import Finding
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.names import SILENCE, STALL
from zmon.schema.rank import RankState


def exiting_ranks(snapshot: Snapshot, limits: HangLimits) -> list[RankState]:
    """Return the living ranks if the program of each of them ended more than `start_look_seconds` ago.

    The others must have finished. While one rank goes on, the exits of the others may wait for it.
    """
    if snapshot.missing or snapshot.unwatched:
        return []
    if not all(_is_exiting(r) if r.alive else way_of(r) is Way.FINISHED for r in snapshot.ranks):
        return []
    alive = [r for r in snapshot.ranks if r.alive]
    return alive if alive and _exit_seconds(alive) >= limits.start_look_seconds else []


def exit_hang(snapshot: Snapshot, limits: HangLimits) -> Finding | None:
    """Return a finding if nothing changes in processes that should end, or if they have not ended for very long."""
    ranks = exiting_ranks(snapshot, limits)
    if not ranks:
        return None
    known = with_standing(snapshot, ranks)
    seconds = _exit_seconds(ranks)
    unchanged_seconds = min((standing.unchanged_seconds for _, standing in known), default=0.0)
    if unchanged_seconds < limits.finishing_seconds and seconds < limits.moving_at_most_seconds:
        return None
    # A thread of one rank may serve something on purpose, so few ranks page nobody.
    is_costly = len(ranks) > 1 and 2 * len(ranks) >= snapshot.world_size
    first, processes = ranks[0], verb(ranks, "its process has", "their processes have")
    return new_finding(
        snapshot,
        detector=STALL,
        cause="compute_hang",
        severity="critical" if is_costly and seconds >= limits.critical_at_most_seconds else "warning",
        proof=SILENCE,  # no act: a launcher would start a finished job again
        culprits=ranks,
        seconds_ago=seconds,
        stalled=True,
        confidence=0.8,
        summary=f"{ranks_on(ranks)} {verb(ranks, 'has', 'have')} finished, and {processes} not ended for "
        f"{duration(seconds)} since the end of the program",
        detail=f"The training is over, and the processes hold their GPUs. The stack of rank {first.rank} is in the "
        f"finding; or run `py-spy dump --native --pid {first.pid}` on {first.host}. Look for a thread that does not "
        "end, a library's exit handler, or a destructor of a process group. Check that the last checkpoint is "
        "complete, and end the job.",
        evidence=StallEvidence(),
    )


def _is_exiting(state: RankState) -> bool:
    words = state.last_words
    is_exit = words is not None and words.kind == "exit" and words.type == ""  # a type is the framework that runs it
    return is_exit and state.activity == "done" and state.last_words_seconds is not None


def _exit_seconds(ranks: list[RankState]) -> float:
    """Return for how long all of these ranks have been exiting."""
    return min(r.last_words_seconds or 0.0 for r in ranks)
