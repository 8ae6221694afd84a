"""The dense part of a DLRM: bottom MLP, dot interaction, top MLP (arXiv 1906.00091), the same on every rank.

Shapes: B samples, F sparse features, D embedding columns.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from trainer.errors import require


@dataclass(frozen=True)
class ModelConfig:
    dense_features: int = 13
    bottom: tuple[int, ...] = (64, 32)  # hidden widths; the bottom MLP ends in the embedding dimension
    top: tuple[int, ...] = (128, 64)  # hidden widths; the top MLP ends in one logit
    learning_rate: float = 0.02  # of AdaGrad

    def __post_init__(self) -> None:
        require(self.dense_features > 0, "model.dense_features", self.dense_features, "1 or more")
        for key, widths in (("model.bottom", self.bottom), ("model.top", self.top)):
            require(all(width > 0 for width in widths), key, widths, "1 or more for each layer")
        require(self.learning_rate > 0, "model.learning_rate", self.learning_rate, "above 0")


class DenseModel(nn.Module):
    """From dense features and pooled embeddings to logits; its gradients lie in one flat buffer."""

    def __init__(self, config: ModelConfig, features: int, dim: int, seed: int, dtype: torch.dtype) -> None:
        super().__init__()
        below, left = torch.tril_indices(features + 1, features + 1, offset=-1)
        self.pairs = below * (features + 1) + left  # each pair of vectors once, none with itself
        self.bottom = mlp([config.dense_features, *config.bottom, dim], last=nn.ReLU())
        self.top = mlp([dim + len(self.pairs), *config.top, 1], last=nn.Identity())
        self.to(dtype)
        _initialize(self, seed)
        self.gradients, self.sums = _flat_gradients(self)

    def forward(self, dense: Tensor, pooled: Tensor) -> Tensor:
        """(B, dense features) and (B, F, D) → (B,) logits."""
        bottom = self.bottom(dense)
        vectors = torch.cat([bottom[:, None], pooled], dim=1)  # (B, F + 1, D)
        dots = torch.bmm(vectors, vectors.transpose(1, 2)).flatten(1)  # (B, (F + 1)²)
        return self.top(torch.cat([bottom, dots[:, self.pairs]], dim=1)).squeeze(1)


def mlp(widths: Sequence[int], last: nn.Module) -> nn.Sequential:
    """Linear layers of these widths with ReLU between them and `last` at the end."""
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1], last)


def _initialize(model: nn.Module, seed: int) -> None:
    """Glorot-normal weights and small biases as in facebookresearch/dlrm, equal on every rank."""
    generator = np.random.default_rng([seed, 2])  # 2: no other generator has this stream
    with torch.no_grad():
        for parameter in model.parameters():
            fan = sum(parameter.shape) if parameter.dim() == 2 else 2 * len(parameter)
            parameter.copy_(torch.from_numpy(generator.normal(0, (2 / fan) ** 0.5, parameter.shape)))


def _flat_gradients(model: nn.Module) -> tuple[Tensor, Tensor]:
    """One buffer whose slices are the parameters' gradients, so one all-reduce carries them all.

    Its last two places, returned beside it, are for the sums that people want to see: they ride along for
    nothing, where a collective of their own would cost a round trip in every step.
    """
    parameters = list(model.parameters())
    sizes = [parameter.numel() for parameter in parameters]
    flat = torch.zeros(sum(sizes) + 2, dtype=parameters[0].dtype)
    *gradients, sums = flat.split([*sizes, 2])
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient.view_as(parameter)  # backward adds to a gradient that is there, in place
    return flat, sums
