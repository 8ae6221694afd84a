"""The target of an act: one start of a rank, as its box and the lock of its box show it.

Only the thread that scans the boxes may call these functions.
"""

from __future__ import annotations

from typing import NamedTuple

from zmon.agent.sources.boxes import Boxes
from zmon.agent.sources.rank_box import RankBox
from zmon.process import ProcessKey


class RankTarget(NamedTuple):
    """A rank of this node. The box has only claims of its user; the owner and the holder come from the kernel."""

    run_uid: str
    job_id: str
    rank: int
    owner: int  # uid of the owner of the box
    holder: int | None  # the pid that holds the lock of the box now; 0: in another PID namespace; None: the rank ended
    start_ticks: int | None  # when the process of the last scan started, in clock ticks after boot; None: hidden
    pid: int  # as the box claims
    launcher: ProcessKey  # as the box claims
    max_restarts: int | None  # as the box claims; None: the launcher does not restart ranks
    world_size: int

    @property
    def job(self) -> str:
        """The job, and the user to whom it belongs."""
        return f"{self.job_id} of uid {self.owner}"


def find_target(boxes: Boxes, run_uid: str, rank: int) -> RankTarget | None:
    """Return the rank with this run uid, or None if it is not on this node. Raises ValueError if there are several."""
    matches = [box for box, state in boxes.ranks() if (state.run_uid, state.rank) == (run_uid, rank)]
    if len(matches) > 1:
        raise ValueError(f"{len(matches)} boxes say that they are this start of rank {rank}")
    return _target_of(matches[0]) if matches else None


def living_ranks(boxes: Boxes, owner: int, launcher: ProcessKey) -> list[RankTarget]:
    """Return the living ranks of this owner whose boxes name this launcher."""
    targets = [_target_of(box) for box, _ in boxes.ranks() if box.owner == owner]
    return [target for target in targets if target.launcher == launcher and target.holder is not None]


def _target_of(box: RankBox) -> RankTarget:
    identity = box.identity
    return RankTarget(
        run_uid=box.run_uid,
        job_id=box.job_id,
        rank=identity.rank,
        owner=box.owner,
        holder=None if box.reader is None else box.reader.holder(),
        start_ticks=box.process.start_ticks if box.process else None,
        pid=identity.pid,
        launcher=ProcessKey(identity.launcher_pid, identity.launcher_start),
        max_restarts=identity.max_restarts,
        world_size=identity.world_size,
    )
