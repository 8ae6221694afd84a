"""The step time at one size after the warm-up, with its confidence interval.

Pure. The first quarter of a run's steps is left out. The rest of all rounds is cut into consecutive blocks, and the
longest and shortest tenth of each block's steps are left out. The interval is computed from the slow variations of the
blocks (zmon/offline/compare/judge.py), which include differences between rounds. It covers at least the mean of each
round.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from zmon.offline.compare import Series
from zmon.offline.compare.judge import BLOCKS, MIN_BLOCK_STEPS, MIN_BLOCKS, half_width_of, trim
from zmon.schema.curve import Point
from zmon.schema.unknown import Unknown

WARM_UP = 0.25  # share of a run's steps


def settled_point(
    rounds: Sequence[Series], batch: int | None, processors: int | None, by: str, now: float
) -> Point | Unknown:
    """Return the point of the curve from the runs of one size, or Unknown with the reason.

    `batch` is the global batch size of the command, for ranks that do not report their samples. `processors` is the
    number of processors that the ranks share; None: they compute on devices. `by` and `now` become the recorder and
    the time of the point.
    """
    blocks = [(run, block) for run in rounds for block in _blocks(run, BLOCKS // len(rounds))]
    if len(blocks) < MIN_BLOCKS:
        num_steps = sum(len(run.steps) for run in rounds)
        return Unknown(f"{num_steps} steps are too few: let it run longer with --seconds")
    means = [fmean(run.seconds[index] for index in block) for run, block in blocks]
    weights = [len(block) for _, block in blocks]

    def mean(values: Sequence[float]) -> float:
        return sum(value * weight for value, weight in zip(values, weights, strict=True)) / sum(weights)

    def seconds_in(category: str) -> list[float]:
        return [
            fmean(run.causes[category][index] for index in block) if category in run.causes else 0.0
            for run, block in blocks
        ]

    has_samples = all(run.samples and sum(run.samples) for run in rounds)
    if not has_samples and batch is None:
        return Unknown(
            f"a step takes {1000 * mean(means):.2f} ms, but the number of samples is unknown: use a DataLoader or "
            "zmon.work() in the trainer, or write {batch} or {batch_per_rank} in the command"
        )
    categories = sorted({category for run in rounds for category in run.causes})
    samples = [
        fmean(run.samples[index] for index in block) if has_samples and run.samples else batch or 0
        for run, block in blocks
    ]
    ops = sorted({op for run in rounds for op in run.sent_bytes})
    return Point(
        ranks=rounds[0].world_size,
        samples=round(mean(samples)),
        seconds=mean(means),
        by=by,
        recorded=now,
        half_width_seconds=max(
            half_width_of(means), *(abs(round_mean - mean(means)) for round_mean in _round_means(blocks, means))
        ),
        causes={category: mean(seconds_in(category)) for category in categories},
        sent_bytes={op: fmean(run.sent_bytes.get(op, 0.0) for run in rounds) for op in ops},
        ranks_per_host=rounds[0].world_size,
        processors_per_host=processors,
    )


def _round_means(blocks: Sequence[tuple[Series, list[int]]], means: Sequence[float]) -> list[float]:
    """Return the mean of the blocks of each round."""
    rounds = {id(run) for run, _ in blocks}
    return [fmean(m for (run, _), m in zip(blocks, means, strict=True) if id(run) == run_id) for run_id in rounds]


def _blocks(run: Series, max_blocks: int) -> list[list[int]]:
    """Return the blocks of a run as indices into its columns."""
    late = range(round(WARM_UP * len(run.steps)), len(run.steps))
    count = min(max_blocks, len(late) // MIN_BLOCK_STEPS)
    return [trim(run, late[len(late) * n // count : len(late) * (n + 1) // count]) for n in range(count)]
