"""Every vector of a sample times every other: what a DLRM's top MLP sees beside the dense features.

Shapes: B samples, F sparse features, D columns.
"""

import torch
from torch import Tensor, nn


class Dot(nn.Module):
    """(B, D) of the bottom MLP and (B, F, D) pooled vectors → (B, D + (F + 1) · F ÷ 2)."""

    pairs: Tensor

    def __init__(self, features: int, dim: int) -> None:
        super().__init__()
        below, left = torch.tril_indices(features + 1, features + 1, offset=-1)
        self.register_buffer("pairs", below * (features + 1) + left, persistent=False)  # each pair once
        self.width = dim + len(self.pairs)

    def forward(self, bottom: Tensor, pooled: Tensor) -> Tensor:
        """The bottom vector itself, then the products by row of the lower triangle."""
        vectors = torch.cat([bottom[:, None], pooled], dim=1)  # (B, F + 1, D)
        dots = torch.bmm(vectors, vectors.transpose(1, 2)).flatten(1)  # (B, (F + 1)²)
        return torch.cat([bottom, dots.index_select(1, self.pairs)], dim=1)
