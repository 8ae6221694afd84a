"""Tests of the dense model against the formulas of its papers, and of its flat parameters and gradients."""

import pytest
import torch

from trainer.dense import DenseModel, ModelConfig
from trainer.flat import FlatParameters, OverlapConfig

B, F, D = 6, 3, 4  # samples, tables and columns of a table


def model(**options) -> DenseModel:
    """Return a small dense model in float64."""
    config = ModelConfig(dense_features=5, bottom=(7,), top=(8,), **options)
    return DenseModel(config, (D,) * F, seed=1, dtype=torch.float64)


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    """Return the output (B, D) of the bottom MLP, and pooled vectors (B, F, D)."""
    generator = torch.Generator().manual_seed(2)
    bottom = torch.randn(B, D, generator=generator, dtype=torch.float64)
    return bottom, torch.randn(B, F, D, generator=generator, dtype=torch.float64)


def test_dot_interaction_is_bottom_vector_and_products_of_pairs() -> None:
    bottom, pooled = inputs()
    vectors = torch.cat([bottom[:, None], pooled], dim=1)
    pairs = [(vectors[:, i] * vectors[:, j]).sum(dim=1) for i in range(F + 1) for j in range(i)]
    expected = torch.cat([bottom, torch.stack(pairs, dim=1)], dim=1)
    assert torch.allclose(model().interaction(bottom, pooled), expected)


def test_gradient_of_dot_interaction_equals_finite_differences() -> None:
    bottom, pooled = (tensor.requires_grad_() for tensor in inputs())
    assert torch.autograd.gradcheck(model().interaction, (bottom, pooled))


def test_gradient_of_dot_interaction_is_float32_under_autocast() -> None:
    bottom, pooled = (tensor.float().requires_grad_() for tensor in inputs())
    with torch.autocast("cpu", torch.bfloat16):
        model().interaction(bottom, pooled).sum().backward()
    total = torch.cat([bottom[:, None], pooled], dim=1).sum(dim=1)  # a vector's gradient is the sum of the others
    assert pooled.grad.dtype == torch.float32
    assert torch.allclose(pooled.grad, total[:, None] - pooled, rtol=0.02, atol=0.05)


def test_cross_layers_equal_formula_of_the_paper() -> None:
    bottom, pooled = inputs()
    cross = model(interaction="cross", cross_layers=2, cross_rank=3).interaction
    first = x = torch.cat([bottom, pooled.reshape(B, -1)], dim=1)
    for down, up in zip(cross.down, cross.up, strict=True):
        x = first * (x @ down.weight.T @ up.weight.T + up.bias) + x
    assert torch.allclose(cross(bottom, pooled), x)


def test_cross_network_takes_vectors_of_several_dimensions() -> None:
    config = ModelConfig(dense_features=5, bottom=(7,), top=(8,), interaction="cross")
    dense = DenseModel(config, (4, 1, 6), seed=1, dtype=torch.float64)
    bottom = dense.bottom(torch.ones(B, 5, dtype=torch.float64))
    assert bottom.shape == (B, 6)
    assert dense.top(bottom, torch.ones(B, 11, dtype=torch.float64)).shape == (B,)


@pytest.mark.parametrize("bucket_bytes", [1, 300, 1 << 20])
@pytest.mark.parametrize("overlapped", [True, False])
def test_flat_gradient_equals_gradient_of_parameters(single_rank_world, bucket_bytes, overlapped) -> None:
    plain, flattened = model(), model()
    flat = FlatParameters(flattened, 3, 2 * D, OverlapConfig(gradients=overlapped, bucket_bytes=bucket_bytes))
    dense, (_, pooled) = torch.ones(B, 5, dtype=torch.float64), inputs()
    plain.top(plain.bottom(dense), pooled).sum().backward()
    flat.begin(torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64))
    flattened.top(flattened.bottom(dense), pooled).sum().backward()
    flat.replicated.fill_(4.0)
    flat.replicated_ready()
    flat.wait()
    for expected, actual in zip(plain.parameters(), flattened.parameters(), strict=True):
        assert torch.equal(expected, actual)
        assert torch.allclose(expected.grad, actual.grad)
    assert flat.sums.tolist() == [1.0, 2.0, 3.0]
    assert bool((flat.replicated == 4.0).all())
    assert len(flat.parameter) == sum(p.numel() for p in plain.parameters())
    flat.parameter.data.zero_()
    assert all(not p.any() for p in flattened.parameters())
