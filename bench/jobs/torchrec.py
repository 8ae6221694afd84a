"""A small model of TorchRec: two tables sharded over the ranks, and a dense layer under DistributedDataParallel."""

from __future__ import annotations

import torch
from torch import nn
from torchrec import EmbeddingBagCollection, EmbeddingBagConfig, KeyedJaggedTensor
from torchrec.distributed import DistributedModelParallel

from bench.jobs.training import BATCH, Fill, Training

KEYS = ("user", "item")
NUM_ROWS, DIMENSION, VALUES_PER_SAMPLE = 1000, 16, 2


class Model(nn.Module):
    """Pools the rows of each sample, and computes one number from them."""

    def __init__(self, place: torch.device) -> None:
        super().__init__()
        tables = [
            EmbeddingBagConfig(
                name=key, embedding_dim=DIMENSION, num_embeddings=NUM_ROWS, feature_names=[key], weight_init_min=-1.0,
                weight_init_max=1.0,
            )
            for key in KEYS
        ]  # fmt: skip
        self.embeddings = EmbeddingBagCollection(tables=tables, device=place)
        self.dense = nn.Linear(len(KEYS) * DIMENSION, 1, device=place)

    def forward(self, features: KeyedJaggedTensor) -> torch.Tensor:
        """Return one number for each sample."""
        pooled: torch.Tensor = self.dense(self.embeddings(features).values())
        return pooled


def make(fill: Fill, place: torch.device) -> Training:
    """Create the model and the optimizer of its dense part."""
    model = DistributedModelParallel(Model(place), device=place)
    optimizer = torch.optim.SGD([parameter for parameter in model.parameters() if parameter.requires_grad], lr=1e-3)
    lengths = torch.full((len(KEYS) * BATCH,), VALUES_PER_SAMPLE)
    values = torch.arange(int(lengths.sum())) % NUM_ROWS

    def step(pause: float) -> None:
        features = KeyedJaggedTensor(keys=list(KEYS), values=values, lengths=lengths).to(place)
        loss = model(features).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        fill(pause)

    return Training(step, model)
