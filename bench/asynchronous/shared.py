"""The tensors that all workers share: embedding tables, the updates of each row, and the center of the dense layers.

Shapes: R rows of all tables together, F tables, D columns, B samples, P dense parameters.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

from trainer.batch import Batch
from trainer.config import Config
from trainer.dense import DenseModel
from trainer.kernel import Bags, Precision, TorchKernel
from trainer.sharding import Shard
from trainer.tables import initial_rows

_CPU = torch.device("cpu")


@dataclass(frozen=True)
class Shared:
    """Tensors in shared memory, which all workers read and write without locks."""

    tables: TorchKernel  # all tables, one after another
    begins: Tensor  # (F,) the first row of each table
    updates: Tensor  # (R,) int32, updates of each row so far
    center: Tensor  # (P,) what the dense layers of all workers are pulled to

    @classmethod
    def initial(cls, config: Config) -> Shared:
        """Return the initial parameters, as the synchronous trainer has them."""
        rows, (dim, *_) = config.embedding.rows, config.embedding.dims
        kernel = TorchKernel(config.optimizer, (sum(rows), dim), Precision(torch.float32), _CPU)
        begins = [*accumulate(rows[:-1], initial=0)]
        for table, (begin, num_rows) in enumerate(zip(begins, rows, strict=True)):
            first = begin
            for block in initial_rows(config.train.seed, Shard(table, 0, 0, num_rows, dim), num_rows, dim):
                kernel.write(first, block)
                first += len(block)
        kernel.weight.share_memory_()
        kernel.state.share_memory_()
        updates = torch.zeros(sum(rows), dtype=torch.int32)
        center = torch.cat([parameter.detach().flatten() for parameter in dense_model(config).parameters()])
        return cls(kernel, torch.tensor(begins), updates.share_memory_(), center.share_memory_())

    def bags(self, batch: Batch) -> Bags:
        """Return the bags (F · B) of a batch; their rows are numbered over all tables."""
        begins = self.begins.repeat_interleave(batch.lengths.sum(dim=1), output_size=len(batch.ids))
        return Bags(batch.ids + begins, batch.lengths.flatten())


def dense_model(config: Config) -> DenseModel:
    """Return the dense layers with their initial parameters."""
    return DenseModel(config.model, config.embedding.dims, config.train.seed, torch.float32)


def flatten(model: DenseModel) -> tuple[Tensor, Tensor]:
    """Make all parameters of the model slices of one tensor, and all gradients of another. Return both (P,)."""
    parameters = list(model.parameters())
    sizes = [parameter.numel() for parameter in parameters]
    weights = torch.cat([parameter.detach().flatten() for parameter in parameters])
    gradients = torch.zeros_like(weights)
    for parameter, weight, gradient in zip(parameters, weights.split(sizes), gradients.split(sizes), strict=True):
        parameter.data = weight.view_as(parameter)
        parameter.grad = gradient.view_as(parameter)
    return weights, gradients


def logits(model: DenseModel, batch: Batch, vectors: Tensor) -> Tensor:
    """Return the logits (B,) for the sums of a batch's bags (F · B, D)."""
    num_tables, num_samples = batch.lengths.shape
    pooled = vectors.view(num_tables, num_samples, -1).transpose(0, 1)  # (B, F, D)
    return model.top(model.bottom(batch.dense), pooled)
