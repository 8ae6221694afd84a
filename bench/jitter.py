"""The rate of false and right findings about uneven steps, depending on how the ranks of a job vary.

    python -m bench.jitter [--jobs N] [--seconds S]

This is a simulation. It takes a quarter of an hour. Each job runs for S seconds; the hub makes a pass every second and
has the sampled steps and the step windows of a real hub. In each step, the self time of each rank is drawn. In a normal
step, a rank waits for data for 15 % of the time, computes for 75 %, and is in collectives for 10 %.

`lost` is the share of the time in which the mean rank waits for the slowest one. `quiet`, `info` and `warning` are
shares of the jobs, by the most severe finding; `quiet` means no finding.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from bench.cluster import RANK
from bench.rows import parser_of, table_line
from bench.straggler import PASS_SECONDS, Columns, sample, steps_between_samples
from zmon.detectors import ALL
from zmon.detectors.suppression import suppress
from zmon.job.baseline import BaselineLearner
from zmon.job.history import History
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.measures import ns

_HEADS = ("job", "ranks", "step", "lost", "quiet", "info", "warning", "right cause", "names a rank", "first finding")
_DATA, _COMPUTING, _COLLECTIVES = 0.15, 0.75, 0.1  # the parts of a normal step
_SPREAD = 0.05  # sigma of the lognormal distributions of ranks that vary little
_DETECTORS = [detector for detector in ALL if detector.name in ("straggler", "imbalance")]
Draw = random.Random


class RankStep(NamedTuple):
    """One step of one rank. Times are ratios of a normal step."""

    data: float  # the wait for data
    computing: float
    lookups: int = 1000

    def slowed(self, factor: float) -> RankStep:
        """Return the step with this factor on its computation."""
        return self._replace(computing=self.computing * factor)

    def loaded(self, factor: float) -> RankStep:
        """Return the step with this factor on its lookups, and so on its computation."""
        return self.slowed(factor)._replace(lookups=round(self.lookups * factor))


Row = list[RankStep]  # by rank


def even(draw: Draw, size: int, _: int) -> Row:
    """Ranks that vary little."""
    return [
        RankStep(_DATA * draw.lognormvariate(0, _SPREAD), _COMPUTING * draw.lognormvariate(0, _SPREAD))
        for _ in range(size)
    ]


def pauses(draw: Draw, size: int, step: int) -> Row:
    """Even ranks; in one of a thousand steps, one of them pauses for the duration of ten steps."""
    row = even(draw, size, step)
    if step % 1000 == 500:
        rank = draw.randrange(size)
        row[rank] = row[rank]._replace(computing=row[rank].computing + 10)
    return row


def contended(draw: Draw, size: int, step: int) -> Row:
    """Even ranks; during 8 of 400 steps, each computes for up to three times as long."""
    row = even(draw, size, step)
    return [rank_step.slowed(draw.uniform(1, 3)) for rank_step in row] if step % 400 < 8 else row


def pooled(draw: Draw, size: int, step: int) -> Row:
    """Batches whose lookups differ from step to step by a factor of five, equally on all ranks."""
    factor = draw.uniform(1, 5) / 3
    return [rank_step.loaded(factor) for rank_step in even(draw, size, step)]


def slower(draw: Draw, size: int, step: int) -> Row:
    """One rank is 15 % slower, in every step."""
    return _with_slow_rank(even(draw, size, step), 1.15)


def input_jitter(draw: Draw, size: int, step: int) -> Row:
    """In each step one rank, drawn at random, waits for its data."""
    late = draw.randrange(size)
    row = even(draw, size, step)
    row[late] = row[late]._replace(data=row[late].data + 0.6)
    return row


def compute_jitter(draw: Draw, size: int, step: int) -> Row:
    """Each rank computes for a time of its own in each step."""
    return [rank_step.slowed(draw.lognormvariate(0, 0.4)) for rank_step in even(draw, size, step)]


def work_imbalance(draw: Draw, size: int, step: int) -> Row:
    """Each rank has a number of lookups of its own in each step, and computes in proportion."""
    factors = [draw.uniform(1, 5) / 3 for _ in range(size)]
    return [rank_step.loaded(factor) for factor, rank_step in zip(factors, even(draw, size, step), strict=True)]


def straggler(draw: Draw, size: int, step: int) -> Row:
    """One rank computes half as long again, in every step."""
    return _with_slow_rank(even(draw, size, step), 1.5)


def _with_slow_rank(row: Row, factor: float) -> Row:
    return [rank_step.slowed(factor) if rank == 1 else rank_step for rank, rank_step in enumerate(row)]


class Kind(NamedTuple):
    """A kind of job."""

    row: Callable[[Draw, int, int], Row]  # draws a step; gets the number of ranks and the number of the step
    right_cause: str = ""  # empty: nothing is to be reported


KINDS = {
    "even": Kind(even),
    "pauses": Kind(pauses),
    "contended": Kind(contended),
    "pooled": Kind(pooled),
    "slower": Kind(slower),
    "input jitter": Kind(input_jitter, "input_jitter"),
    "compute jitter": Kind(compute_jitter, "compute_jitter"),
    "work imbalance": Kind(work_imbalance, "work_imbalance"),
    "straggler": Kind(straggler, "compute_straggler"),
}


@dataclass
class Job:
    """A simulated job, with the history that the hub has of it."""

    kind: str  # of KINDS
    size: int  # ranks
    step_seconds: float
    draw: Draw
    seconds: float = 0.0  # simulated so far
    lost_seconds: float = 0.0  # in which the mean rank waited for the slowest one
    number: int = 0  # of the last step
    learning: BaselineLearner = field(default_factory=BaselineLearner)

    def __post_init__(self) -> None:
        self.history = History(self.size)
        self.every = steps_between_samples(self.step_seconds)
        ranks = tuple(replace(RANK, rank=rank, world_size=self.size) for rank in range(self.size))
        self.job = Snapshot(
            "job", time=0.0, attempt=0, world_size=self.size, ranks=ranks, missing=(), unwatched=(), agents=()
        )

    def train(self) -> None:
        """Simulate the steps up to the next one that the hub receives."""
        steps = [self._step() for _ in range(self.every)]
        ranks = {str(rank): rank for rank in range(self.size)}
        self.learning.add(self.history.add([sample(self.number, steps)], ranks))

    def _step(self) -> Columns:
        self.number += 1
        row = KINDS[self.kind].row(self.draw, self.size, self.number)
        self_times = [rank_step.data + rank_step.computing for rank_step in row]
        end = max(self_times) + _COLLECTIVES
        self.seconds += end * self.step_seconds
        self.lost_seconds += (max(self_times) - sum(self_times) / self.size) * self.step_seconds
        equal_on_all_ranks = {"bytes_sent_all_reduce": 8, "bytes_received_all_reduce": 8, "samples": 32}
        return {
            "phase_data": [ns(rank_step.data * self.step_seconds) for rank_step in row],
            "phase_forward": [ns(rank_step.computing * self.step_seconds) for rank_step in row],
            "exposed_all_reduce": [ns((end - self_time) * self.step_seconds) for self_time in self_times],
            "lookups": [rank_step.lookups for rank_step in row],
            **{name: [number] * self.size for name, number in equal_on_all_ranks.items()},
        }

    def snapshot(self) -> Snapshot:
        """Return the snapshot that the hub has now."""
        windows = tuple(self.learning.step_windows)
        steps = tuple(self.history.steps)
        return replace(self.job, steps=steps, step_windows=windows, baseline=self.learning.baseline)


@dataclass(frozen=True)
class JobResult:
    """The reports of the hub about one job."""

    lost_ratio: float
    severity: str  # the worst; empty: nothing was reported
    causes: tuple[str, ...]  # the most frequent first
    names_rank: bool  # a finding names a rank
    seconds: float | None  # until the first finding


def simulate(kind: str, size: int, step_seconds: float, seed: int, seconds: float) -> JobResult:
    """Simulate one job for this time."""
    job = Job(kind, size, step_seconds, random.Random(seed))
    next_pass = PASS_SECONDS
    severities = set()
    causes = []
    names_rank = False
    first = None
    while job.seconds < seconds:
        job.train()
        if job.seconds < next_pass:
            continue
        next_pass = job.seconds + PASS_SECONDS
        left = suppress({detector.name: detector.detect(job.snapshot()) for detector in _DETECTORS}).findings
        for finding in (finding for findings in left.values() for finding in findings):
            severities.add(finding.severity)
            causes.append(finding.cause)
            names_rank = names_rank or bool(finding.ranks)
            first = job.seconds if first is None else first
    worst = next((severity for severity in ("warning", "info") if severity in severities), "")
    frequent = tuple(cause for cause, _ in Counter(causes).most_common())
    return JobResult(job.lost_seconds / job.seconds, worst, frequent, names_rank, first)


def main() -> None:
    """Simulate and print the table."""
    parser = parser_of(__doc__)
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
                results = [
                    simulate(kind, size, step_seconds, seed, arguments.seconds) for seed in range(arguments.jobs)
                ]
                print(table_line(_cells(kind, size, step_seconds, results), _HEADS), flush=True)


def _cells(kind: str, size: int, step_seconds: float, results: Sequence[JobResult]) -> Iterator[str]:
    number = len(results)
    cause = KINDS[kind].right_cause
    severities = Counter(result.severity for result in results)
    right = sum(result.causes[:1] == ((cause,) if cause else ()) for result in results)
    delays = sorted(result.seconds for result in results if result.seconds is not None)
    yield from (
        kind,
        str(size),
        f"{step_seconds * 1000:.0f} ms",
        f"{sum(result.lost_ratio for result in results) / number:.0%}",
    )
    yield from (f"{severities[severity] / number:.1%}" for severity in ("", "info", "warning"))
    yield f"{right / number:.1%}"
    yield f"{sum(result.names_rank for result in results) / number:.1%}"
    yield f"{delays[len(delays) // 2]:.0f} s" if delays else ""


if __name__ == "__main__":
    main()
