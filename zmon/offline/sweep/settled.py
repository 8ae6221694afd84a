"""What a step was like at one size, once the job had settled, and how sure that is.

Pure. The first quarter of a run's steps is left out. The rest of all its rounds is cut into blocks, one after the
other, without the longest and shortest tenth of each block's steps. The interval is told from the slow swings of the
blocks (zmon/offline/compare/judge.py), that rounds differ being one of them, and reaches the mean of each round at
least.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from zmon.offline.compare import Series
from zmon.offline.compare.judge import BLOCKS, LEAST_BLOCK, LEAST_BLOCKS, half_width_of, typical
from zmon.schema.curve import Point
from zmon.schema.unknown import Unknown

SETTLING = 0.25  # of a run's steps


def settled(
    rounds: Sequence[Series], batch: int | None, processors: int | None, by: str, now: float
) -> Point | Unknown:
    """A point of the runs of one size; else why there is none.

    `batch`: what the command was told, for ranks that do not tell their samples.
    """
    blocks = [(run, block) for run in rounds for block in _blocks(run, BLOCKS // len(rounds))]
    if len(blocks) < LEAST_BLOCKS:
        known = sum(len(run.steps) for run in rounds)
        return Unknown(f"{known} steps are too few: let it run longer (--seconds), or take more steps")
    means = [fmean(run.seconds[at] for at in block) for run, block in blocks]
    weights = [len(block) for _, block in blocks]

    def mean(values: Sequence[float]) -> float:
        return sum(value * weight for value, weight in zip(values, weights, strict=True)) / sum(weights)

    def of(cause: str) -> list[float]:
        return [fmean(run.causes[cause][at] for at in b) if cause in run.causes else 0.0 for run, b in blocks]

    counted = all(run.samples and sum(run.samples) for run in rounds)
    if not counted and batch is None:
        return Unknown(
            f"a step takes {1000 * mean(means):.2f} ms, but its ranks do not tell their samples: does it read them by "
            "a DataLoader, or tell them with zmon.work()? Else write {batch} or {batch_per_rank} where the command "
            "takes them"
        )
    causes = sorted({cause for run in rounds for cause in run.causes})
    samples = [
        fmean(run.samples[at] for at in block) if counted and run.samples else batch or 0 for run, block in blocks
    ]
    ops = sorted({op for run in rounds for op in run.sent_bytes})
    return Point(
        ranks=rounds[0].world_size,
        samples=round(mean(samples)),
        seconds=mean(means),
        by=by,
        recorded=now,
        half_width_seconds=max(
            half_width_of(means), *(abs(of_one - mean(means)) for of_one in _by_round(blocks, means))
        ),
        causes={cause: mean(of(cause)) for cause in causes},
        sent_bytes={op: fmean(run.sent_bytes.get(op, 0.0) for run in rounds) for op in ops},
        ranks_per_host=rounds[0].world_size,
        processors_per_host=processors,
    )


def _by_round(blocks: Sequence[tuple[Series, list[int]]], means: Sequence[float]) -> list[float]:
    """The mean of each round's blocks."""
    rounds = {id(run) for run, _ in blocks}
    return [fmean(m for (run, _), m in zip(blocks, means, strict=True) if id(run) == one) for one in rounds]


def _blocks(run: Series, most: int) -> list[list[int]]:
    """Places in its columns."""
    late = range(round(SETTLING * len(run.steps)), len(run.steps))
    number = min(most, len(late) // LEAST_BLOCK)
    return [typical(run, late[len(late) * n // number : len(late) * (n + 1) // number]) for n in range(number)]
