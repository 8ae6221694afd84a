"""Which job a drill strikes, and which rank of it. Pure: it follows from the drill, the repeat and the seed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import combinations, product
from random import Random

from zmon.drills.drill import Drill
from zmon.drills.stage import JobKind, JobSpec

Turn = tuple[JobKind, int, float]  # kind of job, number of ranks, length of a step in seconds


@dataclass(frozen=True)
class Cast:
    """What is drawn for one playing of a drill."""

    repeat: int
    seed: int
    kind: JobKind
    ranks: int
    step_seconds: float
    rank: int

    @property
    def random(self) -> Random:
        """For what is drawn later, such as the moment."""
        return Random(f"{self.seed} {self.repeat} {self.kind} {self.rank}")


@dataclass(frozen=True)
class Pinned:
    """What is not left to chance; None: it is."""

    kind: JobKind | None = None
    ranks: int | None = None
    step_seconds: float | None = None


def cast(drill: Drill, repeat: int, seed: int) -> Cast:
    """Kind of job, number of ranks and length of step come in turn, and each with each; the rank by chance."""
    turns = _turns(drill, Random(f"{drill.name} {seed}"))
    kind, ranks, step_seconds = turns[repeat % len(turns)]
    return Cast(repeat, seed, kind, ranks, step_seconds, Random(f"{drill.name} {seed} {repeat}").randrange(ranks))


def _turns(drill: Drill, draw: Random) -> list[Turn]:
    """Every combination once, in an order in which each is the one least like those before it."""
    left, turns = list(product(drill.kinds, drill.ranks, drill.step_seconds)), []
    draw.shuffle(left)
    seen: Counter[object] = Counter()

    def likeness(turn: Turn) -> tuple[int, int]:
        values = list(enumerate(turn))
        return sum(seen[value] for value in values), sum(seen[pair] for pair in combinations(values, 2))

    while left:
        turns.append(min(left, key=likeness))
        left.remove(turns[-1])
        values = list(enumerate(turns[-1]))
        seen.update([*values, *combinations(values, 2)])
    return turns


def pin(drill: Drill, part: Cast, pinned: Pinned) -> Cast:
    """The same with what was asked for, as far as the drill can be played so."""
    kind = pinned.kind if pinned.kind in drill.kinds else None
    ranks = pinned.ranks if pinned.ranks in drill.ranks else None
    part = replace(
        part,
        kind=kind or part.kind,
        ranks=ranks or part.ranks,
        step_seconds=pinned.step_seconds or part.step_seconds,
    )
    return replace(part, rank=part.rank % part.ranks)


def job_spec(drill: Drill, part: Cast, job_id: str) -> JobSpec:
    """The job to start."""
    drawn = {"ranks": part.ranks, "step_seconds": part.step_seconds, "seed": part.seed} | dict(drill.job)
    return JobSpec(job_id=job_id, kind=part.kind, **drawn)  # type: ignore[arg-type]
