"""Draw the job that a drill strikes, and the rank. Pure: the result depends on drill, repeat and seed only."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import combinations, product
from random import Random

from lab.drills.drill import Drill
from lab.stage import JobKind, JobSpec

Setting = tuple[JobKind, int, float]  # kind of job, number of ranks, length of a step in seconds


@dataclass(frozen=True)
class Draw:
    """The job and the rank that were drawn for one play of a drill."""

    repeat: int
    seed: int
    kind: JobKind
    ranks: int
    step_seconds: float
    rank: int

    @property
    def random(self) -> Random:
        """A random generator for later draws, such as the time of the fault."""
        return Random(f"{self.seed} {self.repeat} {self.kind} {self.rank}")


@dataclass(frozen=True)
class Pinned:
    """The values that the user chose; None: the value is drawn."""

    kind: JobKind | None = None
    ranks: int | None = None
    step_seconds: float | None = None


def draw_job(drill: Drill, repeat: int, seed: int) -> Draw:
    """Draw the job and the rank of one repeat.

    Repeats go through all combinations of kind, number of ranks and step length; the rank is random.
    """
    settings = _settings(drill, Random(f"{drill.name} {seed}"))
    kind, ranks, step_seconds = settings[repeat % len(settings)]
    return Draw(repeat, seed, kind, ranks, step_seconds, Random(f"{drill.name} {seed} {repeat}").randrange(ranks))


def _settings(drill: Drill, random: Random) -> list[Setting]:
    """Return every combination once, in an order in which successive combinations differ as much as possible."""
    settings: list[Setting] = []
    remaining = list(product(drill.kinds, drill.ranks, drill.step_seconds))
    random.shuffle(remaining)
    counts: Counter[object] = Counter()

    def similarity(setting: Setting) -> tuple[int, int]:
        """Return how often the values of this setting, and pairs of them, came so far."""
        values = list(enumerate(setting))
        return sum(counts[value] for value in values), sum(counts[pair] for pair in combinations(values, 2))

    while remaining:  # the next one is the least similar to the settings so far
        settings.append(min(remaining, key=similarity))
        remaining.remove(settings[-1])
        values = list(enumerate(settings[-1]))
        counts.update([*values, *combinations(values, 2)])
    return settings


def pin(drill: Drill, draw: Draw, pinned: Pinned) -> Draw:
    """Replace drawn values by pinned values, where the drill supports them."""
    kind = pinned.kind if pinned.kind in drill.kinds else draw.kind
    ranks = pinned.ranks if pinned.ranks in drill.ranks else draw.ranks
    seconds = pinned.step_seconds or draw.step_seconds
    return replace(draw, kind=kind, ranks=ranks, step_seconds=seconds, rank=draw.rank % ranks)


def job_spec(drill: Drill, draw: Draw, job_id: str) -> JobSpec:
    """Return the job to start."""
    fields = {"ranks": draw.ranks, "step_seconds": draw.step_seconds, "seed": draw.seed} | dict(drill.job)
    return JobSpec(job_id=job_id, kind=draw.kind, **fields)  # type: ignore[arg-type]
