"""The rate of false and right findings about uneven steps, depending on how the ranks of a job vary.

    python -m bench.jitter [--jobs N] [--seconds S]

This is a simulation. It takes a quarter of an hour. Each job runs for S seconds; the hub makes a pass every second and
has the sampled steps and the step windows of a real hub. In each step, the self time of each rank is drawn: 15 % of a
normal step waits for data, 75 % computes, and 10 % are collectives.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from bench.cluster import RANK
from bench.rows import table_line
from bench.straggler import Columns, sampled
from zmon.detectors import ALL
from zmon.detectors.suppression import suppress
from zmon.hub import HubConfig
from zmon.job.baseline import BaselineLearner
from zmon.job.history import History
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.measures import ns

_HEADS = ("job", "ranks", "step", "lost", "quiet", "info", "warning", "right cause", "names a rank", "first finding")
_DATA, _COMPUTING, _GROUP = 0.15, 0.75, 0.1  # ratios of a normal step
_INTERVAL = 1.0  # seconds between two passes
Draw = random.Random
Row = list[tuple[float, float, int]]  # by rank: waiting for data and computing, as ratios of a normal step, and lookups


def even(draw: Draw, size: int, _: int, spread: float = 0.05) -> Row:
    """Ranks that vary little."""
    return [
        (_DATA * draw.lognormvariate(0, spread), _COMPUTING * draw.lognormvariate(0, spread), 1000) for _ in range(size)
    ]


def pauses(draw: Draw, size: int, step: int) -> Row:
    """Even ranks; one of them pauses for ten steps, every thousand steps."""
    row = even(draw, size, step)
    if step % 1000 == 500:
        rank = draw.randrange(size)
        row[rank] = (row[rank][0], row[rank][1] + 10, 1000)
    return row


def contended(draw: Draw, size: int, step: int) -> Row:
    """Even ranks; ranks take up to three times as long during 8 of 400 steps."""
    row = even(draw, size, step)
    return [(d, c * draw.uniform(1, 3), n) for d, c, n in row] if step % 400 < 8 else row


def pooled(draw: Draw, size: int, step: int) -> Row:
    """Batches whose lookups differ from step to step by a factor of five, equally on all ranks."""
    factor = draw.uniform(1, 5) / 3
    return [(d, c * factor, round(n * factor)) for d, c, n in even(draw, size, step)]


def slower(draw: Draw, size: int, step: int) -> Row:
    """One rank is 15 % slower, in every step."""
    return [(d, c * (1.15 if rank == 1 else 1.0), n) for rank, (d, c, n) in enumerate(even(draw, size, step))]


def input_jitter(draw: Draw, size: int, step: int) -> Row:
    """Another rank waits for its data in each step."""
    late = draw.randrange(size)
    return [(d + (0.6 if rank == late else 0), c, n) for rank, (d, c, n) in enumerate(even(draw, size, step))]


def compute_jitter(draw: Draw, size: int, step: int) -> Row:
    """Each rank computes for a time of its own in each step."""
    return [(d, c * draw.lognormvariate(0, 0.4), n) for d, c, n in even(draw, size, step)]


def work_imbalance(draw: Draw, size: int, step: int) -> Row:
    """Each rank has a number of lookups of its own in each step, and computes in proportion."""
    factors = [draw.uniform(1, 5) / 3 for _ in range(size)]
    return [(d, c * f, round(n * f)) for f, (d, c, n) in zip(factors, even(draw, size, step), strict=True)]


def straggler(draw: Draw, size: int, step: int) -> Row:
    """One rank computes half as long again, in every step."""
    return [(d, c * (1.5 if rank == 1 else 1.0), n) for rank, (d, c, n) in enumerate(even(draw, size, step))]


KINDS: dict[str, tuple[Callable[[Draw, int, int], Row], str]] = {  # name → steps, and the right cause
    "even": (even, ""),
    "pauses": (pauses, ""),
    "contended": (contended, ""),
    "pooled": (pooled, ""),
    "slower": (slower, ""),
    "input jitter": (input_jitter, "input_jitter"),
    "compute jitter": (compute_jitter, "compute_jitter"),
    "work imbalance": (work_imbalance, "work_imbalance"),
    "straggler": (straggler, "compute_straggler"),
}


@dataclass
class Job:
    """A simulated job, with the history that the hub has of it."""

    kind: str
    size: int
    step_seconds: float
    draw: Draw
    seconds: float = 0.0
    lost: float = 0.0  # seconds
    number: int = 0
    learning: BaselineLearner = field(default_factory=BaselineLearner)

    def __post_init__(self) -> None:
        self.history, self.every = History(self.size), 1
        while self.every * HubConfig.about_steps * self.step_seconds < _INTERVAL:
            self.every *= 2
        ranks = tuple(replace(RANK, rank=rank, world_size=self.size) for rank in range(self.size))
        self.job = Snapshot("job", 0.0, 0, self.size, ranks, (), (), ())

    def train(self) -> None:
        """Simulate the steps up to the next one that the hub receives."""
        steps = [self._step() for _ in range(self.every)]
        ranks = {str(rank): rank for rank in range(self.size)}
        self.learning.add(self.history.add([sampled(self.number, steps)], ranks))

    def _step(self) -> Columns:
        self.number += 1
        row = KINDS[self.kind][0](self.draw, self.size, self.number)
        self_times = [data + computing for data, computing, _ in row]
        self.seconds += (max(self_times) + _GROUP) * self.step_seconds
        self.lost += (max(self_times) - sum(self_times) / self.size) * self.step_seconds
        alike = ("bytes_sent_all_reduce", 8), ("bytes_received_all_reduce", 8), ("samples", 32)
        return {
            "phase_data": [ns(data * self.step_seconds) for data, _, _ in row],
            "phase_forward": [ns(computing * self.step_seconds) for _, computing, _ in row],
            "exposed_all_reduce": [ns((max(self_times) + _GROUP - each) * self.step_seconds) for each in self_times],
            "lookups": [lookups for _, _, lookups in row],
            **{name: [number] * self.size for name, number in alike},
        }

    def snapshot(self) -> Snapshot:
        """Return the snapshot that the hub has now."""
        windows = tuple(self.learning.step_windows)
        steps = tuple(self.history.steps)
        return replace(self.job, steps=steps, step_windows=windows, baseline=self.learning.baseline)


@dataclass(frozen=True)
class Play:
    """The reports of the hub about one job."""

    lost_ratio: float
    severity: str  # the worst; empty: nothing was reported
    causes: tuple[str, ...]
    names_rank: bool
    seconds: float | None  # until the first finding


def play(kind: str, size: int, step_seconds: float, seed: int, seconds: float) -> Play:
    """Simulate one job for this time."""
    job = Job(kind, size, step_seconds, random.Random(seed))
    next_pass, severities, causes, names_rank, first = _INTERVAL, set(), [], False, None
    while job.seconds < seconds:
        job.train()
        if job.seconds < next_pass:
            continue
        next_pass = job.seconds + _INTERVAL
        left = suppress({detector.name: detector.detect(job.snapshot()) for detector in _STEPS}).findings
        for finding in (finding for findings in left.values() for finding in findings):
            severities.add(finding.severity)
            causes.append(finding.cause)
            names_rank = names_rank or bool(finding.ranks)
            first = job.seconds if first is None else first
    worst = next((severity for severity in ("warning", "info") if severity in severities), "")
    return Play(
        job.lost / job.seconds, worst, tuple(cause for cause, _ in Counter(causes).most_common()), names_rank, first
    )


_STEPS = [detector for detector in ALL if detector.name in ("straggler", "imbalance")]


def main() -> None:
    """Simulate and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=20, help="jobs of each setting (20)")
    parser.add_argument("--seconds", type=float, default=120.0, help="duration of each job (120)")
    parser.add_argument("--kind", nargs="+", choices=list(KINDS), default=list(KINDS), help="kinds of jobs (all)")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4, 8], help="numbers of ranks (2, 4, 8)")
    parser.add_argument("--steps", type=float, nargs="+", default=[0.02, 0.25], help="seconds of a step (0.02, 0.25)")
    arguments = parser.parse_args()
    print(table_line(_HEADS, _HEADS), flush=True)
    for kind in arguments.kind:
        for size in arguments.ranks:
            for step_seconds in arguments.steps:
                plays = [play(kind, size, step_seconds, seed, arguments.seconds) for seed in range(arguments.jobs)]
                print(table_line(_cells(kind, size, step_seconds, plays), _HEADS), flush=True)


def _cells(kind: str, size: int, step_seconds: float, plays: Sequence[Play]) -> Iterator[str]:
    number, cause = len(plays), KINDS[kind][1]
    severities = Counter(play.severity for play in plays)
    right = sum(play.causes[:1] == ((cause,) if cause else ()) for play in plays)
    delays = sorted(play.seconds for play in plays if play.seconds is not None)
    yield from (kind, str(size), f"{step_seconds * 1000:.0f} ms", f"{sum(p.lost_ratio for p in plays) / number:.0%}")
    yield from (f"{severities[severity] / number:.1%}" for severity in ("", "info", "warning"))
    yield f"{right / number:.1%}"
    yield f"{sum(play.names_rank for play in plays) / number:.1%}"
    yield f"{delays[len(delays) // 2]:.0f} s" if delays else ""


if __name__ == "__main__":
    main()
