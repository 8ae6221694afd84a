"""Tests that equal weights and samples give the same logits as well-known implementations.

The expected logits were computed in float64 by the model code of facebookresearch/dlrm at 090956ee2319 (`DLRM_Net`
without its last sigmoid) and, for the low-rank cross network, of pytorch/torchrec at a48cef79ebc3 (`LowRankCrossNet`
between the same MLPs, as in `DLRM_DCN`), with the weights and samples of the formulas below.
"""

import pytest
import torch
from torch import Tensor

from trainer.batch import Batch, StepBatch

ROWS, DIM, SAMPLES = (11, 5, 17), 4, 6
SMALL = {
    "embedding": {"rows": list(ROWS), "dim": DIM},
    "model": {"dense_features": 3, "bottom": [6], "top": [5], "cross_layers": 2, "cross_rank": 3},
    "train": {"global_batch": SAMPLES},
}
LOGITS = {
    "dot": [
        -0.44428820693279003, -0.6640568360615937, -0.4295436485239369,
        -0.43054806051982353, -0.9911110186994645, -0.400434240950695,
    ],
    "cross": [
        -1.0539511490322324, -1.0360592859782767, -0.8466181898130766,
        -1.1797693402918181, -0.7706473630771684, -1.103765015274275,
    ],
}  # fmt: skip


def numbers(shape: tuple[int, ...], seed: int) -> Tensor:
    """Return numbers within ±1 without an obvious pattern, different for each seed."""
    positions = torch.arange(1, 1 + torch.Size(shape).numel(), dtype=torch.float64)
    return ((positions * 37 + positions.square() * 5 + seed * 29) % 101 / 50 - 1).reshape(shape)


def samples() -> Batch:
    """Return samples with bags of 0 to 4 ids."""
    lengths = torch.tensor([[(2 * sample + 3 * table) % 5 for sample in range(SAMPLES)] for table in range(len(ROWS))])
    ids = [torch.arange(int(bags.sum())) * 7 % rows for bags, rows in zip(lengths, ROWS, strict=True)]
    labels = (torch.arange(SAMPLES) % 2).float()
    return Batch(numbers((SAMPLES, 3), 1).float(), torch.cat(ids), lengths, labels)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("interaction", ["dot", "cross"])
def test_logits_equal_those_of_reference_implementation(small_run, interaction: str, dtype: str) -> None:
    run = small_run(SMALL, {"train": {"dtype": dtype}, "model": {"interaction": interaction}})
    model, state = run.trainer.model, run.state()
    parameters = [p for part in (model.bottom, model.interaction, model.top_mlp) for p in part.parameters()]
    with torch.no_grad():
        for layer, parameter in enumerate(parameters):
            parameter.copy_(numbers(parameter.shape, 10 + layer) / parameter.shape[-1] ** 0.5)
        for table in range(len(ROWS)):
            [(_, weight, *_)] = state[f"table.{table}.weight"].parts
            weight.copy_(numbers(weight.shape, 50 + table))
    logits = run.trainer.predict(StepBatch(0, SAMPLES, samples()))
    assert logits.tolist() == pytest.approx(LOGITS[interaction], rel=1e-12 if dtype == "float64" else 1e-5)
