"""Recognize ranks that work on alone after the others have finished: they upload a model, draw plots, write a report.

No rank waits for them, so nothing is lost while they do that, and it may take minutes. A rank that hangs in its
teardown looks the same, and is reported later than a rank that others wait for. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from zmon.detectors.hangs.diagnosis import Diagnosis
from zmon.detectors.wording import ranks_on, verb
from zmon.format import duration
from zmon.job.way import Way, way_of
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.rank import RankState


def finishing(snapshot: Snapshot, alive: Sequence[RankState]) -> Diagnosis | None:
    """Return the diagnosis of ranks that go on after all others have finished; None if there are none, or if they wait.

    `alive` has the ranks that have not finished.
    """
    unfinished = {r.rank for r in alive}
    rest = [r for r in snapshot.ranks if r.rank not in unfinished]
    if not rest or not alive or snapshot.missing or snapshot.unwatched:
        return None
    if not all(r.activity == "done" and (r.alive or way_of(r) is Way.FINISHED) for r in rest):
        return None
    if any(r.in_flight or (r.rank in snapshot.flights and snapshot.flights[r.rank].num_pending) for r in alive):
        return None
    if len(alive) > 1 and any(r.device != "cpu" for r in alive):
        return None  # on a GPU a rank issues a collective and goes on, so these may wait for each other
    first = alive[0]
    return Diagnosis(
        cause="compute_hang",
        summary=f"{ranks_on(alive)} {verb(alive, 'has', 'have')} gone on alone for {duration(first.step_seconds)} "
        f"since the last step, and all {len(rest)} others have finished",
        detail=f"No rank waits for it. It may upload a model or write a report: its stack is in the finding, or run "
        f"`py-spy dump --native --pid {first.pid}` on {first.host}. If it hangs in its teardown, check that its last "
        "checkpoint is complete, and end it.",
        confidence=0.6,
        culprits=alive,
    )
