"""The tensors of a checkpoint: everything that a step changes, in memory or on a disk."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Literal

from torch import Tensor

from trainer.kernel import Kernel
from trainer.optimizers import ELEMENTWISE
from trainer.quality import RunningQuality
from trainer.scale.checkpoint import Part, Rows, State, whole
from trainer.scale.tier.kernel import TieredKernel, array
from trainer.sharding import Merge, Shard
from trainer.train import Trainer


def state_of(trainer: Trainer, running: RunningQuality) -> State:
    """Return the tensors by name, with the parts that this rank holds.

    A tensor of a table does not depend on its sharding, so that a run with other shards can load it. The moments of
    column-wise tables with `optimizer.column_moments=separate` are the exception: each shard has its own moments.
    """
    embedding, optimizer = trainer.config.embedding, trainer.config.optimizer
    tensors = {"dense": whole(trainer.flat.parameter.data)}
    tensors |= {f"{optimizer.dense}.{name}": whole(tensor) for name, tensor in trainer.optimizer.state().items()}
    tensors |= {f"quality.{name}": whole(tensor) for name, tensor in running.state().items()}
    weights: list[list[Part]] = [[] for _ in embedding.rows]
    states: list[list[Part]] = [[] for _ in embedding.rows]
    num_moments, elementwise = _separate_moments(trainer), optimizer.embedding in ELEMENTWISE
    for shard, kernel, first in trainer.tables.locate():
        weight, state = _in_memory_or_on_disk(shard, kernel, first)
        weights[shard.table].append(weight)
        states[shard.table].append(_moments(shard, state, num_moments[shard.table], embedding.dims[shard.table]))
    for table, weight, state in trainer.replicated.weights_and_states():
        weights[table].append(Part(0, weight))
        states[table].append(Part(0, state))
    for table, (rows, dim) in enumerate(zip(embedding.rows, embedding.dims, strict=True)):
        tensors[f"table.{table}.weight"] = Rows(rows, weights[table], dim, may_differ=True)
        num_columns = dim if elementwise else num_moments[table] or None
        tensors[f"table.{table}.{optimizer.embedding}"] = Rows(rows, states[table], num_columns)
    return tensors


def _separate_moments(trainer: Trainer) -> Counter[int]:
    """Return the number of moments of a row of each table that has several, one for each shard of its columns."""
    optimizer = trainer.config.optimizer
    if optimizer.embedding != "rowwise_adagrad" or optimizer.shares_moments:
        return Counter()
    return Counter(shard.table for shard in trainer.shards if shard.merge is Merge.COLUMNS)


def _in_memory_or_on_disk(shard: Shard, kernel: Kernel, first: int) -> tuple[Part, Part]:
    """Return the weight and the optimizer state of a shard, whose rows begin at `first` in a kernel."""
    weight_on_disk, state_on_disk = None, None
    if isinstance(kernel, TieredKernel):
        weight_on_disk, state_on_disk = KernelRows(kernel, "weight", first), KernelRows(kernel, "state", first)
        weight = kernel.weight.new_empty(shard.num_rows, shard.num_columns, device="meta")
        state = kernel.state.new_empty(shard.num_rows, *kernel.state.shape[1:], device="meta")
    else:
        weight, state = kernel.read(first, shard.num_rows)
    state_column = shard.first_column if state.dim() > 1 else 0
    return (
        Part(shard.first_row, weight, shard.first_column, weight_on_disk),
        Part(shard.first_row, state, state_column, state_on_disk),
    )


def _moments(shard: Shard, state: Part, num_moments: int, dim: int) -> Part:
    """Return the moments of a shard: one column of its table's moments, or all of them."""
    if not num_moments:
        return state
    return state._replace(tensor=state.tensor[:, None], first_column=shard.first_column * num_moments // dim)


@dataclass(frozen=True)
class KernelRows:
    """The weight or the optimizer state of the rows of a kernel from row `first` on, as `DiskRows`."""

    kernel: TieredKernel
    field: Literal["weight", "state"]
    first: int

    def read(self, num_rows: int) -> Tensor:
        """Return copies of the first rows."""
        return self.kernel.tensor(self.kernel.records(self.first, num_rows)[self.field])

    def write(self, first_column: int, rows: Tensor) -> None:
        """Set the first rows, or some columns of their weight."""
        records = self.kernel.records(self.first, len(rows))
        old_values = records[self.field].reshape(len(rows), -1)  # a view
        new_values = array(rows).reshape(len(rows), -1)
        old_values[:, first_column : first_column + new_values.shape[1]] = new_values
        self.kernel.set_records(self.first, records)

    def after(self, num_rows: int) -> KernelRows:
        """Return the rows without the first ones."""
        return replace(self, first=self.first + num_rows)
