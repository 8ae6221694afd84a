"""Every vector of a sample times every other: what a DLRM's top MLP sees beside the dense features.

Shapes: B samples, F sparse features, D columns, V = F + 1 vectors, K = V · F ÷ 2 pairs of them.
"""

from typing import Any

import torch
from torch import Tensor, nn


class Dot(nn.Module):
    """(B, D) of the bottom MLP and (B, F, D) pooled vectors → (B, D + K)."""

    pair_of: Tensor
    place_of: Tensor

    def __init__(self, features: int, dim: int) -> None:
        super().__init__()
        num_vectors = features + 1
        below, left = torch.tril_indices(num_vectors, num_vectors, offset=-1)
        pair_of = torch.zeros(num_vectors, num_vectors, dtype=torch.int64)
        pair_of[below, left] = pair_of[left, below] = torch.arange(len(below))
        self.register_buffer("pair_of", pair_of.flatten(), persistent=False)  # (V²,) of the matrix; any on its diagonal
        self.register_buffer("place_of", below * num_vectors + left, persistent=False)  # (K,) in the matrix
        self.width = dim + len(below)

    def forward(self, bottom: Tensor, pooled: Tensor) -> Tensor:
        """The bottom vector itself, then the products by row of the lower triangle."""
        vectors = torch.cat([bottom[:, None], pooled], dim=1)  # (B, V, D)
        return torch.cat([bottom, _Products.apply(vectors, self.place_of, self.pair_of)], dim=1)


class _Products(torch.autograd.Function):
    """(B, V, D) → (B, K). The matrix of all products is symmetric, so one product gives its gradient; autograd would
    make two of the two factors, one of them slow."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, place_of: Tensor, pair_of: Tensor) -> Tensor:
        ctx.save_for_backward(vectors, pair_of)
        return torch.bmm(vectors, vectors.transpose(1, 2)).flatten(1).index_select(1, place_of)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        vectors, pair_of = ctx.saved_tensors
        num_vectors = vectors.shape[1]
        of_matrix = gradient.index_select(1, pair_of).view(-1, num_vectors, num_vectors)  # both triangles
        of_matrix.diagonal(dim1=1, dim2=2).zero_()
        return torch.bmm(of_matrix, vectors.to(of_matrix.dtype)), None, None  # under autocast a product is narrower
