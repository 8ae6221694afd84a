"""The roles of a job: ranks of one role do the same work, so they should take equally long.

Pure. A job may name the role of each rank. Otherwise the roles are derived, and only for pipelines: ranks that send
each other tensors in their steps are stages if no collective over all ranks keeps them equal. The ranks of a stage are
those that share process groups. If in doubt, all ranks have one role.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from zmon.format import listed
from zmon.schema.aligned_step import AlignedStep
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.rank import RankState

_POINT_TO_POINT = ("send", "recv")
_SMALL_RATIO = 0.01  # a loss or a norm of the gradients is less than this share of the bytes between stages


@dataclass(frozen=True)
class Role:
    """The ranks that do the same work."""

    name: str  # as the job named it; else `ranks 4–7`
    ranks: Sequence[int]
    is_named: bool = False  # the job named it

    @property
    def stage(self) -> str:
        """The role as a stage, for people."""
        return f"stage {self.name}" if self.is_named else f"the stage of {self.name}"


def roles(snapshot: Snapshot) -> tuple[Role, ...]:
    """Return the roles of all ranks, by their first rank; a single role if nothing tells the ranks apart."""
    every_rank = range(snapshot.world_size)  # a range takes no memory, whatever size the job claims
    states = snapshot.reported_ranks
    names = {state.role for state in states}
    is_complete = len(states) == len(every_rank)
    if len(names) > 1 and "" not in names and is_complete:
        ranks_by_role: dict[str, list[int]] = {}
        for state in states:
            ranks_by_role.setdefault(state.role, []).append(state.rank)
        return tuple(Role(name, tuple(ranks), is_named=True) for name, ranks in ranks_by_role.items())
    stages = _stages(snapshot.steps, states) if is_complete else ()
    if len(stages) < 2:
        return (Role(_ranks_text(every_rank), every_rank),)
    return tuple(Role(_ranks_text(stage), tuple(stage)) for stage in sorted(stages))


def _stages(steps: Sequence[AlignedStep], states: Sequence[RankState]) -> list[list[int]]:
    """Return the ranks of each stage of a pipeline; empty if the job has no stages, or if they are not known."""
    if not steps or "send" not in steps[-1].sent_bytes:
        return []
    groups: dict[str, set[int]] = {}
    for state in states:
        for name, sequence in state.sequences.items():
            if sequence:
                groups.setdefault(name, set()).add(state.rank)
    partial = [members for members in groups.values() if 1 < len(members) < len(states)]
    if partial:
        stages = _connected(world_size=len(states), groups=partial)
        return stages if all(len(stage) > 1 for stage in stages) else []
    return [] if _are_kept_equal(steps[-1]) else [[state.rank] for state in states]


def _connected(world_size: int, groups: Iterable[set[int]]) -> list[list[int]]:
    """Return the ranks that groups connect, directly or through other ranks."""
    stage_of = {rank: {rank} for rank in range(world_size)}
    for members in groups:
        joined = set().union(*(stage_of[rank] for rank in members))
        stage_of.update(dict.fromkeys(joined, joined))
    return [sorted(stage) for stage in {id(stage): stage for stage in stage_of.values()}.values()]


def _are_kept_equal(step: AlignedStep) -> bool:
    """Return True if collectives move enough to average gradients, so that all ranks have the same model."""
    between = sum(step.sent_bytes["send"])
    collective = sum(sum(column) for op, column in step.sent_bytes.items() if op not in _POINT_TO_POINT)
    return collective >= _SMALL_RATIO * between


def _ranks_text(ranks: Sequence[int]) -> str:
    """Return ranks for people: `rank 3`, `ranks 4–7`, `ranks 0, 2, 4 and 5 more`."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if isinstance(ranks, range) or all(after - before == 1 for before, after in pairwise(ranks)):
        return f"ranks {ranks[0]}–{ranks[-1]}"
    return f"ranks {listed([str(rank) for rank in ranks])}"
