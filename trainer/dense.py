"""The dense part of a DLRM (arXiv 1906.00091): bottom MLP, interaction, top MLP; the same on every rank.

Shapes: B samples, F sparse features, D embedding columns. C is the sum of the D of all tables, and X is C plus the D of
the bottom MLP. A sample has V = F + 1 vectors, which form K = V · F ÷ 2 pairs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from trainer.errors import require

INTERACTIONS = ("dot", "cross")


@dataclass(frozen=True)
class ModelConfig:
    dense_features: int = 13  # dense features of a sample; Criteo has 13
    bottom: tuple[int, ...] = (64, 32)  # hidden widths; the bottom MLP ends in the largest embedding dimension
    top: tuple[int, ...] = (128, 64)  # hidden widths; the top MLP ends in one logit
    interaction: str = "dot"  # dot, or cross: the low-rank cross network of DLRM-DCNv2
    cross_layers: int = 3  # layers of the cross network
    cross_rank: int = 16  # rank of a cross layer's matrix, which is the product of two thin matrices

    def __post_init__(self) -> None:
        require(self.dense_features > 0, "model.dense_features", self.dense_features, "1 or more")
        for key, widths in (("model.bottom", self.bottom), ("model.top", self.top)):
            require(all(width > 0 for width in widths), key, widths, "1 or more for each layer")
        require(self.interaction in INTERACTIONS, "model.interaction", self.interaction, " or ".join(INTERACTIONS))
        require(self.cross_layers > 0, "model.cross_layers", self.cross_layers, "1 or more")
        require(self.cross_rank > 0, "model.cross_rank", self.cross_rank, "1 or more")


class DenseModel(nn.Module):
    """The dense layers in two halves. The bottom MLP needs no embeddings, so it can run while they are in flight."""

    def __init__(self, config: ModelConfig, dims: Sequence[int], seed: int, dtype: torch.dtype) -> None:
        """`dims` are the columns of each table."""
        super().__init__()
        self.bottom = mlp([config.dense_features, *config.bottom, max(dims)], last=nn.ReLU(inplace=True))
        if config.interaction == "dot":  # then all tables have equal columns
            self.interaction: Dot | Cross = Dot(len(dims), dims[0])
        else:
            self.interaction = Cross(max(dims) + sum(dims), config.cross_layers, config.cross_rank)
        self.top_mlp = mlp([self.interaction.width, *config.top, 1], last=nn.Identity())
        self.to(dtype)
        _initialize(self, seed)

    def top(self, bottom: Tensor, pooled: Tensor) -> Tensor:
        """Return the logits (B,) for (B, D) of the bottom MLP and (B, F, D) or (B, C) pooled vectors."""
        return torch.squeeze(self.top_mlp(self.interaction(bottom, pooled)), dim=1)


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


class Cross(nn.Module):
    """The low-rank cross network of DLRM-DCNv2 (DCN V2, arXiv 2008.13535, section 3.2; MLPerf's DLRM-DCNv2).

    (B, D) of the bottom MLP and (B, F, D) or (B, C) pooled vectors → (B, X).
    """

    def __init__(self, width: int, layers: int, rank: int) -> None:
        super().__init__()
        self.width = width  # X
        self.down = nn.ModuleList(nn.Linear(self.width, rank, bias=False) for _ in range(layers))
        self.up = nn.ModuleList(nn.Linear(rank, self.width) for _ in range(layers))

    def forward(self, bottom: Tensor, pooled: Tensor) -> Tensor:
        """Apply the layers: each computes x ← x₀ · (U (V x) + b) + x."""
        x0 = torch.cat([bottom, pooled.flatten(1)], dim=1)
        x = x0
        for down, up in zip(self.down, self.up, strict=True):
            x = torch.addcmul(x, x0, up(down(x)))
        return x


class Dot(nn.Module):
    """The dot products of every pair of a sample's vectors.

    (B, D) of the bottom MLP and (B, F, D) or (B, F · D) pooled vectors → (B, D + K).
    """

    pair_index: Tensor  # (V²,) the pair of each element of the matrix; values on the diagonal do not matter
    matrix_index: Tensor  # (K,) the position of each pair in the flattened matrix

    def __init__(self, features: int, dim: int) -> None:
        super().__init__()
        num_vectors = features + 1
        below, left = torch.tril_indices(num_vectors, num_vectors, offset=-1)
        pair_index = torch.zeros(num_vectors, num_vectors, dtype=torch.int64)
        pair_index[below, left] = pair_index[left, below] = torch.arange(len(below))
        self.register_buffer("pair_index", pair_index.flatten(), persistent=False)
        self.register_buffer("matrix_index", below * num_vectors + left, persistent=False)
        self.features, self.width = features, dim + len(below)

    def forward(self, bottom: Tensor, pooled: Tensor) -> Tensor:
        """Return the bottom vector itself, then the products in row order of the lower triangle."""
        pooled = pooled.view(len(bottom), self.features, bottom.shape[1])
        vectors = torch.cat([bottom[:, None], pooled], dim=1)  # (B, V, D)
        return torch.cat([bottom, _Products.apply(vectors, self.matrix_index, self.pair_index)], dim=1)


class _Products(torch.autograd.Function):
    """The dot products of all pairs: (B, V, D) → (B, K).

    The matrix of all products is symmetric, so one matrix product gives its gradient. Autograd would compute two, one
    for each factor, and one of the two is slow.
    """

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, matrix_index: Tensor, pair_index: Tensor) -> Tensor:
        ctx.save_for_backward(vectors, pair_index)
        return torch.bmm(vectors, vectors.transpose(1, 2)).flatten(1).index_select(1, matrix_index)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        vectors, pair_index = ctx.saved_tensors
        num_vectors = vectors.shape[1]
        matrix = gradient.index_select(1, pair_index).view(-1, num_vectors, num_vectors)  # both triangles
        matrix.diagonal(dim1=1, dim2=2).zero_()
        return torch.bmm(matrix, vectors.to(matrix.dtype)), None, None  # autocast makes the product narrower
