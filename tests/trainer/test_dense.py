"""Tests of the dense model against the formulas of its papers, and of the gradient of its interaction."""

import torch

from trainer.dense import DenseModel, ModelConfig

B, F, D = 6, 3, 4


def model(**options) -> DenseModel:
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
