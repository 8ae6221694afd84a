"""How soon a slow rank is named, and how often one is named falsely, by how noisy ranks are:
`python -m bench.straggler`.

    python -m bench.straggler [--trials N] [--hours H]

Simulated, a minute of computing: each rank's own time is drawn anew in each step, from a lognormal around the same
median; 15 % of it is waiting for data. The hub looks every second. Only the spread of the ranks against each other
counts here: what all have in common cancels out.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median

from bench.cluster import RANK
from bench.rows import table_line
from zmon.detectors.straggler import Straggler
from zmon.hub import HubConfig
from zmon.job.history import History
from zmon.schema.snapshot import Snapshot
from zmon.schema.step import Measures, StepRecord
from zmon.stats import quantile

_HEADS = (
    "ranks",
    "step",
    "spread",
    "one rank's             ",
    "named",
    "rightly",
    "median",
    "p90",
    "steps",
    "false an hour",
)
_DATA = 0.15  # of the own time
_SLOWER = {"computing takes × 1.5": (0.5, 0.0), "input + half a step": (0.0, 0.5)}
_BEFORE_SECONDS, _BEFORE_STEPS, _LONGEST = (
    20.0,
    48,
    150,
)  # known of the job; and steps that a slow rank has to be found in
_GROUP, _INTERVAL = 0.02, 1.0  # of a step in collectives; seconds between two looks


@dataclass
class Job:
    """A job that is not there: ranks, their steps, and what the hub knows of it."""

    size: int
    step_seconds: float
    spread: float  # sigma of the lognormal
    draw: random.Random
    slow_rank: int | None = None
    slower: tuple[float, float] = (0.0, 0.0)  # more computing, more input; parts of a usual step

    def __post_init__(self) -> None:
        self.history, self.number, self.seconds = History(self.size), 0, 0.0
        about = HubConfig.about_records
        self.every = 1
        while self.every * about * self.step_seconds < _INTERVAL:
            self.every *= 2
        ranks = tuple(replace(RANK, rank=rank, world_size=self.size) for rank in range(self.size))
        self.snapshot = Snapshot("job", 0.0, 0, self.size, ranks, (), (), ())

    def train(self) -> None:
        """The steps until one is told again, and that one."""
        taken = [self._step() for _ in range(self.every)]
        self.number += self.every
        means = [_mean([measures[rank] for measures in taken]) for rank in range(self.size)]
        told = {
            rank: (StepRecord(self.number, 0.0, self.step_seconds, measures, mean=means[rank]),)
            for rank, measures in enumerate(taken[-1])
        }
        self.history.add(told)

    def _step(self) -> list[Measures]:
        own = [self._own(rank) for rank in range(self.size)]
        self.seconds += (max(map(sum, own)) + _GROUP) * self.step_seconds
        return [Measures({"data": data * self.step_seconds, "forward": rest * self.step_seconds}) for data, rest in own]

    def _own(self, rank: int) -> tuple[float, float]:
        data, rest = (part * self.draw.lognormvariate(0.0, self.spread) for part in (_DATA, 1 - _DATA))
        computing, more_input = self.slower if rank == self.slow_rank else (0.0, 0.0)
        return data + more_input, rest * (1 + computing)

    def named(self) -> tuple[int, ...] | None:
        """Whom the detector names now."""
        found = Straggler().detect(replace(self.snapshot, steps=tuple(self.history.steps)))
        return found[0].ranks if found else None


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=60, help="of each kind (60)")
    parser.add_argument("--hours", type=float, default=1.0, help="of each healthy job (1)")
    told = parser.parse_args()
    print(table_line(_HEADS, _HEADS), flush=True)
    for spread in (0.05, 0.15, 0.30):
        for step_seconds in (0.02, 0.25):
            for size in (2, 4, 8):
                for cells in _rows(size, step_seconds, spread, told.trials, told.hours):
                    print(table_line(cells, _HEADS), flush=True)


def _rows(size: int, step_seconds: float, spread: float, trials: int, hours: float) -> Iterator[Sequence[str]]:
    falsely = f"{_false_ones(size, step_seconds, spread, hours) / hours:.1f}"
    for what, slower in _SLOWER.items():
        trials_of = [_trial(size, step_seconds, spread, slower, seed) for seed in range(trials)]
        found = [trial for trial in trials_of if trial is not None]
        seconds = [trial.seconds for trial in found]
        yield (
            str(size), f"{step_seconds * 1000:.0f} ms", f"{spread:.0%}", what, f"{len(found) / trials:.0%}",
            f"{sum(trial.right for trial in found) / max(len(found), 1):.0%}",
            f"{median(seconds):.1f} s" if found else "", f"{quantile(seconds, 0.9):.1f} s" if found else "",
            f"{median(trial.num_steps for trial in found):.0f}" if found else "", falsely,
        )  # fmt: skip


@dataclass(frozen=True)
class Named:
    """Somebody was, so long after a rank became slow; and whether it was that rank."""

    seconds: float
    num_steps: int
    right: bool


def _trial(size: int, step_seconds: float, spread: float, slower: tuple[float, float], seed: int) -> Named | None:
    """None: nobody was named."""
    job = Job(size, step_seconds, spread, random.Random(seed))
    while job.seconds < _BEFORE_SECONDS or len(job.history.steps) < _BEFORE_STEPS:
        job.train()
    job.slow_rank, job.slower = job.draw.randrange(size), slower
    onset, begin, look = job.number, job.seconds, job.seconds + job.draw.uniform(0, _INTERVAL)
    while job.number - onset < _LONGEST or job.seconds - begin < 30 * _INTERVAL:
        job.train()
        if job.seconds >= look:
            look += _INTERVAL
            if (named := job.named()) is not None:
                return Named(job.seconds - begin, job.number - onset, named == (job.slow_rank,))
    return None


def _false_ones(size: int, step_seconds: float, spread: float, hours: float) -> int:
    job, look, standing, number = Job(size, step_seconds, spread, random.Random(1)), 0.0, False, 0
    while job.seconds < 3600 * hours:
        job.train()
        if job.seconds >= look:
            look = job.seconds + _INTERVAL
            named = job.named() is not None
            number += named and not standing
            standing = named
    return number


def _mean(steps: Sequence[Measures]) -> Measures:
    names = steps[0].phases
    return Measures({name: sum(measures.phases[name] for measures in steps) / len(steps) for name in names})


if __name__ == "__main__":
    main()
