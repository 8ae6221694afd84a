"""Tests of the metrics against their definitions. Every rank gets the metrics over the samples of all ranks.

Each rank of the last test runs this file as a script.
"""

import json
import math
import os
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import Tensor

from trainer.quality import Predictions, Quality, RunningQuality, auc, calibration, normalized_entropy, quality, sums
from trainer.world import join, world_from

RANKS = 3
SPREAD = {  # samples of each step of each rank
    "uneven": [[], [200, 0, 199], [33, 1]],
    "nobody": [[], [0], [0, 0]],
    "one_sided": [[0], [8], [2]],
    "diverged": [[5], [9], []],
}


def samples(case: str, rank: int, step: int, size: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return made-up logits with many ties, and labels that correlate with them."""
    generator = torch.Generator().manual_seed(100 * rank + step)
    logits = torch.randn(size, generator=generator).mul(8).round().div(8)  # also exact in bfloat16
    labels = (torch.rand(size, generator=generator) < (logits - 1).sigmoid()).float()
    if case == "one_sided":
        labels.zero_()
    if case == "diverged" and rank == 1:
        logits[-1] = math.nan
    return logits.to(dtype), labels


def all_samples(case: str, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return the logits and labels of all ranks and steps."""
    parts = [
        samples(case, rank, step, size, dtype)
        for rank, steps in enumerate(SPREAD[case])
        for step, size in enumerate(steps)
    ]
    return torch.cat([logits for logits, _ in parts]), torch.cat([labels for _, labels in parts])


def by_all_pairs(logits: Tensor, labels: Tensor) -> float:
    """Return the AUC by its definition: the share of pairs in the right order, with half of the ties."""
    positive, negative = logits[labels == 1].double()[:, None], logits[labels == 0].double()[None]
    return ((positive > negative).double() + 0.5 * (positive == negative).double()).mean().item()


def test_normalized_entropy_of_predicting_the_mean_is_1() -> None:
    entropy = -(0.25 * math.log(0.25) + 0.75 * math.log(0.75))
    assert normalized_entropy(entropy, 0.25) == pytest.approx(1)
    assert normalized_entropy(entropy / 2, 0.25) == pytest.approx(0.5)


@pytest.mark.parametrize("mean_label", [0.0, 1.0, math.nan])
def test_normalized_entropy_of_equal_labels_is_nan(mean_label: float) -> None:
    assert math.isnan(normalized_entropy(0.1, mean_label))


def test_calibration_is_predicted_clicks_divided_by_clicks() -> None:
    assert calibration(0.3, 0.2) == pytest.approx(1.5)
    assert math.isnan(calibration(0.3, 0.0))


@pytest.mark.parametrize("decimals", [0, 1, 6])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_auc_is_share_of_ordered_pairs_and_half_of_ties(decimals: int, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(decimals)
    labels = (torch.rand(700, generator=generator) < 0.2).float()
    logits = (torch.randn(700, generator=generator, dtype=dtype) + labels).round(decimals=decimals)
    assert auc(logits, labels) == pytest.approx(by_all_pairs(logits, labels), rel=1e-14)


def test_auc_of_perfect_reversed_and_constant_order() -> None:
    labels = torch.tensor([0.0, 1.0, 0.0, 1.0])
    assert auc(torch.tensor([-1.0, 2.0, 0.0, 3.0]), labels) == 1
    assert auc(torch.tensor([1.0, -2.0, 0.0, -3.0]), labels) == 0
    assert auc(torch.tensor([0.0, 0.0, -0.0, -0.0]), labels) == 0.5


@pytest.mark.parametrize(
    ("logits", "labels"),
    [
        pytest.param([1.0, 2.0], [1.0, 1.0], id="only positive labels"),
        pytest.param([1.0, 2.0], [0.0, 0.0], id="only negative labels"),
        pytest.param([math.nan, 2.0], [0.0, 1.0], id="a logit that is no number"),
        pytest.param([], [], id="no samples"),
    ],
)
def test_auc_is_nan_without_pairs_or_order(logits: list[float], labels: list[float]) -> None:
    assert math.isnan(auc(torch.tensor(logits), torch.tensor(labels)))


def test_sums_equal_their_definitions() -> None:
    logits, labels = torch.tensor([0.5, -2.0, 30.0]), torch.tensor([1.0, 0.0, 0.0])
    chances = [1 / (1 + math.exp(-logit)) for logit in logits.tolist()]
    log_loss = -math.log(chances[0]) - math.log(1 - chances[1]) + 30  # 1 - chance would round
    assert sums(logits, labels).tolist() == pytest.approx([3, log_loss, 1, sum(chances)], rel=1e-12)


def test_running_quality_weights_steps_by_samples_and_drops_old_steps() -> None:
    running = RunningQuality(window_steps=2)
    steps = [(100, 90.0, 50.0, 60.0), (10, 8.0, 4.0, 5.0), (30, 12.0, 6.0, 5.0)]
    for step in steps:
        running.step(*step)
    assert running.windowed() == Quality(40, 0.5, normalized_entropy(0.5, 0.25), 1.0)
    assert running.lifetime() == quality(torch.tensor([140, 110, 60, 70]).double())


def test_nan_step_leaves_the_window_only() -> None:
    running = RunningQuality(window_steps=2)
    running.step(10, math.nan, 5.0, 5.0)
    assert math.isnan(running.windowed().log_loss)
    for _ in range(2):
        running.step(10, 5.0, 5.0, 5.0)
    assert running.windowed().log_loss == 0.5
    assert math.isnan(running.lifetime().log_loss)


def test_running_quality_resumes_from_its_state() -> None:
    before, after, plain = (RunningQuality(window_steps=3) for _ in range(3))
    for step in range(4):
        before.step(step + 1, 0.5 * step, 1.0, 2.0)
        plain.step(step + 1, 0.5 * step, 1.0, 2.0)
    for name, tensor in after.state().items():
        tensor.copy_(before.state()[name])
    for running in (after, plain):
        running.step(9, 1.0, 2.0, 3.0)
    assert after.windowed() == plain.windowed()
    assert after.lifetime() == plain.lifetime()


def test_metrics_before_first_step_are_nan() -> None:
    empty = RunningQuality().windowed()
    assert empty.samples == 0
    assert all(map(math.isnan, (empty.log_loss, empty.normalized_entropy, empty.calibration, empty.auc)))


@pytest.mark.e2e
def test_every_rank_gets_quality_over_samples_of_all_ranks(start, tmp_path: Path) -> None:
    ended = start(RANKS, __file__, str(tmp_path))
    assert ended.returncode == 0, ended.stderr
    results = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(RANKS)]
    assert all(str(result) == str(results[0]) for result in results)  # as text: NaN is not equal to itself
    for case in SPREAD:
        for name in ("float32", "float64", "bfloat16"):
            logits, labels = all_samples(case, getattr(torch, name))
            expected = quality(sums(logits, labels), auc(logits, labels))
            assert results[0][f"{case} {name}"] == pytest.approx(vars(expected), rel=1e-12, nan_ok=True)
    uneven = results[0]["uneven float32"]
    assert (
        uneven["auc"]
        == auc(*all_samples("uneven", torch.float32))
        == by_all_pairs(*all_samples("uneven", torch.float32))
    )
    assert math.isnan(results[0]["one_sided float32"]["auc"])
    assert results[0]["nobody float32"]["samples"] == 0


def main(out: Path) -> None:
    """Write this rank's result of every case."""
    world = world_from(os.environ)
    join(world)
    results = {}
    for case, spread in SPREAD.items():
        for name in ("float32", "float64", "bfloat16"):
            dtype = getattr(torch, name)
            predictions = Predictions(dtype, torch.device("cpu"))
            for step, size in enumerate(spread[world.rank]):
                predictions.add(*samples(case, world.rank, step, size, dtype))
            results[f"{case} {name}"] = vars(predictions.quality())
    (out / f"{world.rank}.json").write_text(json.dumps(results))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
