"""The DLRM of the benchmarks in plain torch: all tables on every rank, DDP, sparse gradients, sparse Adagrad.

DDP all-reduces dense gradients in buckets during backward. Sparse gradients are all-reduced after backward; with gloo,
every rank gathers the rows of all ranks. Sparse all-reduces must not start during backward, because torch 2.13 then
corrupts its heap every few thousand steps, whether DDP or a hook starts them. torch's Adagrad updates the rows looked
up. It has one number of state for each element.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from bench.dlrm import DENSE_FEATURES, Shape
from trainer.batch import Batch, StepBatch


class PlainDlrm(nn.Module):
    """The model: bottom MLP, a table for each feature, dot interaction, top MLP."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        num_vectors = shape.tables + 1
        self.bottom = _mlp((DENSE_FEATURES, *shape.bottom, shape.dim), nn.ReLU())
        self.tables = nn.ModuleList(
            nn.EmbeddingBag(shape.rows, shape.dim, mode="sum", sparse=True) for _ in range(shape.tables)
        )
        self.pairs = torch.tril_indices(num_vectors, num_vectors, offset=-1)
        self.top = _mlp((shape.dim + self.pairs.shape[1], *shape.top, 1), nn.Identity())

    def forward(self, batch: Batch) -> Tensor:
        """Return the logits (B,)."""
        bottom = self.bottom(batch.dense)
        pooled = []
        ids = batch.ids.split(batch.lengths.sum(dim=1).tolist())
        for table, table_ids, lengths in zip(self.tables, ids, batch.lengths, strict=True):
            pooled.append(table(table_ids, lengths.cumsum(0) - lengths))
        vectors = torch.stack([bottom, *pooled], dim=1)  # (B, F + 1, D)
        dots = torch.bmm(vectors, vectors.transpose(1, 2))
        logits: Tensor = self.top(torch.cat([bottom, dots[:, self.pairs[0], self.pairs[1]]], dim=1)).squeeze(1)
        return logits


class PlainTrainer:
    """Trains the model with DDP. The process group must exist."""

    def __init__(self, shape: Shape, batches: Iterator[StepBatch]) -> None:
        torch.manual_seed(1)
        self._batches = batches
        plain = PlainDlrm(shape)
        table_names = [name for name, _ in plain.named_parameters() if name.startswith("tables.")]
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(plain, table_names)
        self._model = DistributedDataParallel(plain)
        self._weights = [table.weight for table in plain.tables]
        self._optimizer = torch.optim.Adagrad(self._model.parameters(), lr=0.02)

    def step(self) -> float:
        """Train one step; return the mean loss of this rank's samples."""
        batch = next(self._batches).batch
        self._optimizer.zero_grad()
        loss = F.binary_cross_entropy_with_logits(self._model(batch), batch.labels)
        loss.backward()
        works = [dist.all_reduce(weight.grad, async_op=True) for weight in self._weights]
        for weight, work in zip(self._weights, works, strict=True):
            work.wait()
            weight.grad /= dist.get_world_size()
        self._optimizer.step()
        return float(loss.detach())


def _mlp(widths: tuple[int, ...], last: nn.Module) -> nn.Sequential:
    layers: list[nn.Module] = []
    for num_inputs, num_outputs in pairwise(widths):
        layers += [nn.Linear(num_inputs, num_outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1], last)
