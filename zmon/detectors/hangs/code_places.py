"""The lines of the job's own code at which ranks stand, for the summary of a hang."""

from __future__ import annotations

from collections.abc import Sequence

from zmon.detectors.wording import ranks_text, verb
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.rank import RankState

_MAX_PLACES = 3  # more differ from rank to rank; the stacks are in the finding


def places_text(snapshot: Snapshot, culprits: Sequence[RankState]) -> str:
    """Return the frame of each culprit, or, without a culprit, of the ranks that live; empty if none is known.

    The frames are those of the stacks that the hub has; they arrive some seconds after the finding opened.
    """
    alive = [r for r in snapshot.ranks if r.alive and r.activity != "done"]
    by_frame: dict[str, list[int]] = {}
    for r in culprits or alive:
        if frame := snapshot.frames.get(r.rank):
            by_frame.setdefault(frame, []).append(r.rank)
    if len(by_frame) > _MAX_PLACES:
        return ""
    return "".join(f"; {_subject(ranks, len(alive))} in {frame}" for frame, ranks in by_frame.items())


def _subject(ranks: list[int], num_alive: int) -> str:
    if 1 < len(ranks) == num_alive:
        return f"all {num_alive} ranks stand"
    return f"{ranks_text(ranks)} {verb(ranks, 'stands', 'stand')}"
