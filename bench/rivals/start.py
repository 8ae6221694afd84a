"""The weights from which all trainers start.

Shapes: F tables, R rows, D columns.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from bench.dlrm import Shape
from trainer.dense import DenseModel
from trainer.scale.config import RunConfig
from trainer.sharding import Shard
from trainer.tables import initial_rows

RATE, EPSILON = 0.001, 1e-10  # of all trainers and parameters; the epsilon is the default of facebookresearch/dlrm


def table(shape: Shape, seed: int, number: int) -> Tensor:
    """Return the initial weight (R, D) of a table."""
    return torch.cat([*initial_rows(seed, Shard(number, 0, 0, shape.rows, shape.dim), shape.rows, shape.dim)]).float()


def layers(config: RunConfig) -> tuple[list[nn.Linear], list[nn.Linear]]:
    """Return the initial layers of the bottom and of the top MLP."""
    model = DenseModel(config.model, config.embedding.dims, config.train.seed, torch.float32)
    bottom, top = ([layer for layer in mlp if isinstance(layer, nn.Linear)] for mlp in (model.bottom, model.top_mlp))
    return bottom, top


def set_layers(module: nn.Module, values: Sequence[nn.Linear]) -> None:
    """Copy layers into the layers of a module, in order. Pairs of vectors must be in the same order."""
    with torch.no_grad():
        for layer, value in zip(
            (child for child in module.modules() if isinstance(child, nn.Linear)), values, strict=True
        ):
            layer.weight.copy_(value.weight)
            layer.bias.copy_(value.bias)
