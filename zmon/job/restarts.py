"""The launches of a job that faults ended one after the other, and the progress of these launches.

Pure. A crash loop is the last launches that ended without progress. A launch without progress neither saved a new
checkpoint nor stepped beyond the launches before it. The number of a step may begin again at 0 in each launch, even if
the launch resumed a checkpoint. Then only a new checkpoint shows progress.
"""

from __future__ import annotations

from collections.abc import Sequence

from zmon.job.signals import is_cancellation
from zmon.schema.ended_launch import LaunchEnd
from zmon.schema.evidence import StallEvidence
from zmon.schema.finding import Finding
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.rank import RankState

# A launch that trained this long beyond the furthest step of a loop has left it. A step more or less is chance: the
# order of data may change from launch to launch.
_PROGRESS_SECONDS = 10.0
SETTLED_SECONDS = 5.0  # after the end of the last rank; by then, the fault that ended the launch was reported
# Kubernetes starts a crashing container again after at most 5 minutes. After a longer gap a person started the job.
RESTART_GAP_SECONDS = 600.0


def is_over(snapshot: Snapshot) -> bool:
    """Return True if every watched rank of the launch is gone."""
    return bool(snapshot.ranks) and not any(r.alive for r in snapshot.ranks)


def is_settled(snapshot: Snapshot) -> bool:
    """Return True if the last rank of a launch that is over ended some seconds ago."""
    return min(r.gone_seconds or 0.0 for r in snapshot.ranks) > SETTLED_SECONDS


def ended_well(snapshot: Snapshot) -> bool:
    """Return True if the launch is over, and no fault was reported: it had finished, or its owner ended it.

    A launch that an exception ended has failed, even if the culprit is unknown.
    """
    if snapshot.unwatched or snapshot.missing:
        return False
    have_finished = all(map(_has_finished, snapshot.ranks))
    return have_finished or (is_over(snapshot) and is_settled(snapshot) and not any(map(_raised, snapshot.ranks)))


def seconds_since_start(state: RankState) -> float:
    """Return the seconds since a rank began, also for a rank that has ended."""
    return state.step_seconds_total + sum(state.between_seconds.values()) + state.open_seconds


def launch_began(snapshot: Snapshot) -> float:
    """Return the time at which the launch began, by the hub's clock (unix seconds)."""
    return snapshot.time - max(seconds_since_start(r) for r in snapshot.reported_ranks)


def launch_end(snapshot: Snapshot, finding: Finding) -> LaunchEnd:
    """Return the end of the launch, which this finding explains."""
    if ends := finding.evidence_of(StallEvidence).ends:  # such a finding names only the culprits that all ends share
        return ends[-1]
    ranks = snapshot.reported_ranks
    culprit = next((r for r in ranks if r.rank in finding.ranks), None)
    return LaunchEnd(
        attempt=snapshot.attempt,
        start=max(r.start for r in ranks),
        began=launch_began(snapshot),
        ended=snapshot.time - min((r.gone_seconds or 0.0 for r in snapshot.ranks), default=0.0),
        step=max(r.step for r in ranks),
        steps=max(r.steps for r in ranks),
        saved=_has_saved(snapshot),
        cause=finding.cause,
        ranks=finding.ranks,
        hosts=finding.hosts,
        error=_error(culprit) if culprit else "",
    )


def _has_saved(snapshot: Snapshot) -> bool:
    """Return True if the launch has written a checkpoint."""
    return any(r.last_checkpoint_time is not None for r in snapshot.reported_ranks)


def without_progress(ends: Sequence[LaunchEnd]) -> tuple[LaunchEnd, ...]:
    """Return the last of these ends (oldest first) that came one after the other without progress.

    The first of them may have made progress: the later ones are compared with it.
    """
    loop: list[LaunchEnd] = []
    for end in ends:
        if loop and (end.began - loop[-1].ended > RESTART_GAP_SECONDS or _is_progress(loop, end)):
            loop = []
        loop.append(end)
    return tuple(loop)


def _seconds_beyond(loop: Sequence[LaunchEnd], snapshot: Snapshot) -> float:
    """Return the seconds that the launch has trained beyond the furthest step of these ends; 0 if it has not."""
    furthest = max(end.step for end in loop)
    lead = max(snapshot.reported_ranks, key=lambda r: r.step)
    beyond = lead.step - furthest
    return beyond * lead.step_seconds_total / lead.steps if beyond > 0 and lead.steps else 0.0


def has_left(ends: Sequence[LaunchEnd], snapshot: Snapshot) -> bool:
    """Return True if the launch has made progress, compared with the loop at the end of `ends`.

    A checkpoint is progress only if no launch of the loop had saved one: the job may not resume its checkpoints.
    """
    loop = without_progress(ends)
    saved = _has_saved(snapshot) and not any(end.saved for end in loop)
    return saved or _seconds_beyond(loop, snapshot) >= _PROGRESS_SECONDS


def _is_progress(loop: Sequence[LaunchEnd], end: LaunchEnd) -> bool:
    """Return True if the launch got further than those before it.

    A launch that ends at the same step with the same error as the launch before it did the same work again, even if it
    saved checkpoints on the way: its job does not resume them.
    """
    last = loop[-1]
    if (end.step, end.ranks, end.error) == (last.step, last.ranks, last.error):
        return False
    return end.saved or end.step > max(earlier.step for earlier in loop)


def _has_finished(state: RankState) -> bool:
    return state.superseded or (state.activity == "done" and state.exit_status in (None, "exit code 0"))


def _raised(state: RankState) -> bool:
    """Return True if the rank left an exception that ended it, and with which it did not obey a signal."""
    words = state.last_words
    if words is None or words.kind != "exception" or state.exit_status == "exit code 0":
        return False
    return not is_cancellation(words)


def _error(state: RankState) -> str:
    """Return the exception of a rank in one line, or else its exit status; empty if neither is known."""
    words = state.last_words
    if words is not None and words.kind == "exception":
        text = words.error[:200].removesuffix(": ")
        return f"{text} (in {words.where})" if words.where else text
    return state.exit_status or ""
