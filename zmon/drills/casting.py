"""Which job a drill strikes, and which rank of it. Pure: it follows from the drill, the repeat and the seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import TypeVar

from zmon.drills.drill import Drill
from zmon.drills.stage import JobKind, JobSpec

T = TypeVar("T")


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
    """Kinds of job, lengths of step and numbers of ranks come in turn from a random beginning; the rank by chance."""
    begin, own = Random(f"{drill.name} {seed}"), Random(f"{drill.name} {seed} {repeat}")

    def turn(choices: Sequence[T]) -> T:
        return choices[(begin.randrange(len(choices)) + repeat) % len(choices)]

    kind, step_seconds, ranks = turn(drill.kinds), turn(drill.step_seconds), turn(drill.ranks)
    return Cast(repeat, seed, kind, ranks, step_seconds, own.randrange(ranks))


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
