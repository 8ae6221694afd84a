"""The comparison of asynchronous with synchronous training: both run on the same samples, seed by seed. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.asynchronous.shared import dense_model
from bench.rows import PERCENT, mean_and_half_width
from trainer.scale.config import RunConfig

SYNCHRONOUS, ASYNCHRONOUS = "synchronous", "asynchronous"
HEADS = (
    "training", "workers", "speed", "samples/s", "±", "÷ synchronous", "± of ratio", "NE", "NE difference",
    "± of NE", "AUC", "missed updates", "99 %", "bytes a sample",
)  # fmt: skip
_NUMBER_BYTES = 4  # of a float32, and of an id or length on the network


@dataclass(frozen=True)
class Run:
    """The result of training with one seed."""

    samples_per_second: float
    entropy: float  # normalized entropy of held-out samples
    auc: float
    network_bytes: float  # of a sample: `synchronous_bytes` or `asynchronous_bytes`
    missed: tuple[int, ...] = ()  # updated rows by the number of updates that they missed


def synchronous_bytes(config: RunConfig, ranks: int, ids: float) -> float:
    """Return the bytes of a sample that ranks send to others, with `ids` ids a sample.

    Ids and lengths go to the ranks of the tables, vectors come back and gradients go out: all but 1 ÷ ranks of them
    cross the network. A ring all-reduce sends the gradients of all dense parameters 2 · (ranks - 1) times in a step.
    """
    reduced = 2 * (ranks - 1) * _dense_bytes(config) / config.train.global_batch
    return _sparse_bytes(config, ids) * (ranks - 1) / ranks + reduced


def asynchronous_bytes(config: RunConfig, ids: float, averagings: float) -> float:
    """Return the bytes of a sample if each worker and the shared memory were machines, with `averagings` a sample.

    All ids, vectors and gradients cross the network, and an averaging reads the center and sends a difference.
    """
    return _sparse_bytes(config, ids) + 2 * averagings * _dense_bytes(config)


def _sparse_bytes(config: RunConfig, ids: float) -> float:
    dims = config.embedding.dims
    return _NUMBER_BYTES * (ids + len(dims) + 2 * sum(dims))


def _dense_bytes(config: RunConfig) -> int:
    return _NUMBER_BYTES * sum(int(parameter.numel()) for parameter in dense_model(config).parameters())


def cells(name: str, workers: int, speed: str, runs: Sequence[Run], synchronous: Sequence[Run]) -> tuple[str, ...]:
    """Return a line of the table: means over seeds with Student's 95 % intervals, and ratios to the same seed's run."""
    pairs = list(zip(runs, synchronous, strict=True))
    rate, rate_half = mean_and_half_width([run.samples_per_second for run in runs])
    ratio, ratio_half = mean_and_half_width([run.samples_per_second / other.samples_per_second for run, other in pairs])
    difference, half = mean_and_half_width([run.entropy / other.entropy - 1 for run, other in pairs])
    entropy, _ = mean_and_half_width([run.entropy for run in runs])
    area, _ = mean_and_half_width([run.auc for run in runs])
    sent, _ = mean_and_half_width([run.network_bytes for run in runs])
    ratios = (f"{ratio:.2f}", f"{ratio_half:.2f}")
    differences = (f"{difference * PERCENT:+.3f} %", f"{half * PERCENT:.3f} %")
    if name == SYNCHRONOUS:  # the synchronous runs are the reference
        ratios, differences = ("", ""), ("", "")
    missed = [sum(counts) for counts in zip(*(run.missed for run in runs), strict=True)]
    return (
        name, str(workers), speed, f"{rate:,.0f}", f"{rate_half:,.0f}", *ratios, f"{entropy:.5f}", *differences,
        f"{area:.5f}", _quantile(missed, 0.5), _quantile(missed, 0.99), f"{sent:,.0f}",
    )  # fmt: skip


def _quantile(counts: Sequence[int], share: float) -> str:
    """Return the smallest number that this share of the counted rows does not exceed; empty if none was counted."""
    total = sum(counts)
    counted = 0
    for number, count in enumerate(counts):
        counted += count
        if counted >= share * total > 0:
            return str(number)
    return ""
