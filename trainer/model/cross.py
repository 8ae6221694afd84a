"""The low-rank cross network of DLRM-DCNv2 (DCN V2, arXiv 2008.13535, section 3.2; MLPerf's DLRM-DCNv2).

Shapes: B samples, F sparse features, D columns; C is the sum of the D of all tables, X = C + the D of the bottom MLP.
"""

import torch
from torch import Tensor, nn


class Cross(nn.Module):
    """The cross network: (B, D) of the bottom MLP and (B, F, D) or (B, C) pooled vectors → (B, X)."""

    def __init__(self, width: int, layers: int, rank: int) -> None:
        super().__init__()
        self.width = width  # X
        self.down = nn.ModuleList(nn.Linear(self.width, rank, bias=False) for _ in range(layers))
        self.up = nn.ModuleList(nn.Linear(rank, self.width) for _ in range(layers))

    def forward(self, bottom: Tensor, pooled: Tensor) -> Tensor:
        """Apply the layers: each computes x ← x₀ · (U (V x) + b) + x."""
        first = torch.cat([bottom, pooled.flatten(1)], dim=1)
        x = first
        for down, up in zip(self.down, self.up, strict=True):
            x = torch.addcmul(x, first, up(down(x)))
        return x
