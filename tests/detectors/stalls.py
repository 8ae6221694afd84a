"""Run the stall detector on jobs, build ranks that stall, and write down what is due as rows of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from tests.build import rank_state, snapshot, waiting
from zmon.detectors.stall import Stall
from zmon.detectors.wording import ranks_text
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.rank import InFlight, RankState

STALL = Stall()


@dataclass(frozen=True)
class Row:
    """A scene of a job and the finding that is due; tests judge it, and `make generate` writes it into a page."""

    scene: str
    due: str  # cause, severity and culprits, such as `compute_hang, warning, rank 1`; or `quiet`
    job: Snapshot
    says: str = ""  # parts of the summary, separated by " … "
    note: str = ""  # the reason

    def __str__(self) -> str:
        return self.scene


QUIET = "quiet"


def due(cause: str, *culprits: int | str, severity: str = "critical") -> str:
    """Return the finding that is due, with its ranks, or its hosts; without culprits it names nobody."""
    ranks = [culprit for culprit in culprits if isinstance(culprit, int)]
    who = ranks_text(ranks) if ranks else " and ".join(map(str, culprits)) or "nobody"
    return f"{cause}, {severity}, {who}"


def row(scene: str, due_: str, ranks: Iterable[RankState], note: str = "", says: str = "", **changes: Any) -> Row:
    """Return the row of a job of these ranks; `changes` has what else is in the snapshot."""
    return Row(scene, due_, snapshot(*ranks, **changes), says, note)


def judged(row_: Row) -> tuple[str, list[str]]:
    """Return what zmon reports about the job, as in a row, and the parts of the row that its summary lacks."""
    finding = next(iter(STALL.detect(row_.job)), None)
    if finding is None:
        return QUIET, []
    lacks = [part for part in row_.says.split(" … ") if part not in finding.summary]
    if finding.severity == "critical" and "it becomes critical" in finding.summary:
        lacks.append("it is critical now")
    return due(finding.cause, *(finding.ranks or finding.hosts), severity=finding.severity), lacks


def detect(*ranks, **changes):
    """Return the finding about a job of these ranks, or None."""
    return next(iter(STALL.detect(snapshot(*ranks, **changes))), None)


def job(*ranks, rest: Callable[[int], RankState] | None = waiting, unwatched=(), agents=None, **changes) -> Snapshot:
    """Return a job of four ranks: these, and by default others that wait in a collective."""
    numbers = {r.rank for r in (*ranks, *unwatched)}
    others = [rest(rank) for rank in range(4) if rest and rank not in numbers]
    return replace(snapshot(*ranks, *others, unwatched=unwatched, agents=agents), **changes)


def others(but, state=waiting):
    """Return the ranks of a job of four, but for one."""
    return [state(rank) for rank in range(4) if rank != but]


def stopped(rank, seconds=2.0, **changes):
    """Return a rank whose process has been stopped for `seconds`."""
    return rank_state(rank, **{"process_state": "T", "stopped_seconds": seconds, "step_seconds": seconds, **changes})


def outside(rank, phase="forward", **changes):
    """Return a rank in no collective, five seconds after its last step."""
    return waiting(rank, in_flight=None, phase=phase, **changes)


def inside(rank, op="all_reduce", sequence=301, num_bytes=4096, group="0", seconds=5.0, **changes):
    """Return a rank that has been in this collective for `seconds`."""
    return waiting(rank, seconds, in_flight=InFlight(op, group, sequence, num_bytes, seconds), **changes)
