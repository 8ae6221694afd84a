"""Tests of the work of a step: its operations against a count by torch, its traffic against a count by hand."""

import pytest
import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode

from trainer.dense import DenseModel
from trainer.work import StepWork

B = 24  # samples of a step


def model_and_work(config, device="cpu") -> tuple[DenseModel, StepWork]:
    """Return the dense layers of a configuration, and the work of its steps on this device."""
    model = DenseModel(config.model, config.embedding.dims, 1, torch.float32)
    return model, StepWork(config, model, torch.device(device))


def counted(config, model: DenseModel) -> int:
    """Return the operations of the dense layers in forward and backward, by torch."""
    pooled = torch.ones(B, sum(config.embedding.dims), requires_grad=True)
    counter = FlopCounterMode(display=False)
    with counter:
        logits = model.top(model.bottom(torch.ones(B, config.model.dense_features)), pooled)
        F.binary_cross_entropy_with_logits(logits, torch.ones(B), reduction="sum").backward()
    return counter.get_total_flops()


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"model": {"bottom": [16, 8], "top": [32, 16, 8]}},
        {"model": {"interaction": "cross", "cross_layers": 1, "cross_rank": 3}},
        {"model": {"interaction": "cross", "cross_layers": 3, "cross_rank": 8}},
        {"embedding": {"rows": [5] * 12, "dim": 8}},
        {"embedding": {"dim": [4, 8, 4, 2, 16]}, "model": {"interaction": "cross", "cross_layers": 2, "cross_rank": 3}},
    ],
)
def test_operations_of_a_step_are_those_that_torch_counts(small_config, changes):
    config = small_config(changes)
    model, work = model_and_work(config)
    assert work.flops(B) == counted(config, model)


@pytest.mark.parametrize(("embedding", "row"), [("rowwise_adagrad", 3 * 4 + 2), ("adagrad", 5 * 4), ("sgd", 3 * 4)])
def test_memory_traffic_equals_the_count_by_hand(small_config, embedding, row):
    """Five tables of 4 columns, 3 dense features, bottom 8, top 8; float32, AdaGrad for dense layers.

    `row` is the count of numbers that a lookup and its update read or write, with the optimizer's state.
    """
    config = small_config({"optimizer": {"embedding": embedding}})
    _, work = model_and_work(config)
    width = 4 + 6 * 5 // 2  # the vector of the bottom layers, and the products of all pairs of six vectors
    parameters = (3 + 1) * 8 + (8 + 1) * 4 + (width + 1) * 8 + (8 + 1) * 1
    vectors = 4 * 5 * B * 4  # 4 uses of 5 vectors
    activations = 5 * B * (3 + 8 + 4 + 36 + width + 8 + 1)  # 5 uses; 36 products of six vectors
    numbers = 100 * row + vectors + activations + (7 + 2) * parameters  # 7 uses of parameters, 2 of their state
    assert work.memory_traffic(B, num_lookups=100, num_elements=400) == 4 * numbers


@pytest.mark.parametrize(
    ("train", "device", "dtype"),
    [
        ({}, "cpu", "float32"),
        ({}, "cuda", "bfloat16"),
        ({"cpu_autocast": True}, "cpu", "bfloat16"),
        ({"cpu_autocast": True, "dtype": "float64"}, "cpu", "float64"),
        ({"autocast": False, "cpu_autocast": True}, "cuda", "float32"),
    ],
)
def test_dtype_is_that_of_the_matrix_products(small_config, train, device, dtype):
    _, work = model_and_work(small_config({"train": train}), device)
    assert work.dtype == dtype
