"""The dot interaction of a DLRM: the dot product of every pair of a sample's vectors.

Shapes: B samples, F sparse features, D columns, V = F + 1 vectors, K = V · F ÷ 2 pairs of them.
"""

from typing import Any

import torch
from torch import Tensor, nn


class Dot(nn.Module):
    """The dot interaction: (B, D) of the bottom MLP and (B, F, D) pooled vectors → (B, D + K)."""

    pair_index: Tensor
    matrix_index: Tensor

    def __init__(self, features: int, dim: int) -> None:
        super().__init__()
        num_vectors = features + 1
        below, left = torch.tril_indices(num_vectors, num_vectors, offset=-1)
        pair_index = torch.zeros(num_vectors, num_vectors, dtype=torch.int64)
        pair_index[below, left] = pair_index[left, below] = torch.arange(len(below))
        self.register_buffer(
            "pair_index", pair_index.flatten(), persistent=False
        )  # (V²,); values on the diagonal do not matter
        self.register_buffer(
            "matrix_index", below * num_vectors + left, persistent=False
        )  # (K,), positions in the flattened matrix
        self.features, self.width = features, dim + len(below)

    def forward(self, bottom: Tensor, pooled: Tensor) -> Tensor:
        """Return the bottom vector itself, then the products in row order of the lower triangle.

        The pooled vectors may also be (B, F · D).
        """
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
