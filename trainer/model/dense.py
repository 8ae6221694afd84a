"""Bottom MLP, interaction, top MLP: from dense features and pooled embeddings to logits.

Shapes: B samples, F sparse features, D embedding columns; C is the sum of the D of all tables.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from trainer.model.config import ModelConfig
from trainer.model.cross import Cross
from trainer.model.dot import Dot


class DenseModel(nn.Module):
    """The dense layers in two halves. The bottom MLP needs no embeddings, so it can run while they are in flight."""

    def __init__(self, config: ModelConfig, dims: Sequence[int], seed: int, dtype: torch.dtype) -> None:
        """`dims` are the columns of each table."""
        super().__init__()
        self.bottom = mlp([config.dense_features, *config.bottom, max(dims)], last=nn.ReLU(inplace=True))
        self.interaction = interaction(config, dims)
        self.over = mlp([self.interaction.width, *config.top, 1], last=nn.Identity())
        self.to(dtype)
        _initialize(self, seed)

    def top(self, bottom: Tensor, pooled: Tensor) -> Tensor:
        """Return the logits (B,) for (B, D) of the bottom MLP and (B, F, D) or (B, C) pooled vectors."""
        logits: Tensor = self.over(self.interaction(bottom, pooled)).squeeze(1)
        return logits


def interaction(config: ModelConfig, dims: Sequence[int]) -> Dot | Cross:
    """Build the interaction that `model.interaction` names. The dot interaction needs tables of equal dimension."""
    if config.interaction == "dot":
        return Dot(len(dims), dims[0])
    return Cross(max(dims) + sum(dims), config.cross_layers, config.cross_rank)


def mlp(widths: Sequence[int], last: nn.Module) -> nn.Sequential:
    """Build linear layers of these widths with ReLU between them and `last` at the end."""
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers[:-1], last)


def _initialize(model: nn.Module, seed: int) -> None:
    """Draw Glorot-normal weights and small biases as in facebookresearch/dlrm, equal on every rank."""
    generator = np.random.default_rng([seed, 2])  # 2: a stream that no other generator uses
    with torch.no_grad():
        for parameter in model.parameters():
            fan = sum(parameter.shape) if parameter.dim() == 2 else 2 * len(parameter)
            parameter.copy_(torch.from_numpy(generator.normal(0, (2 / fan) ** 0.5, parameter.shape)))
