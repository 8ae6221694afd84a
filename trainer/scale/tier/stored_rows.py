"""Rows of a kernel on a disk as a checkpoint sees them: one field, read and written some rows at a time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from torch import Tensor

from trainer.scale.tier.kernel import TieredKernel, array


@dataclass(frozen=True)
class StoredRows:
    """The weight or the optimizer state of the rows of a kernel, from one of them on."""

    kernel: TieredKernel
    field: Literal["weight", "state"]
    first: int

    def read(self, number: int) -> Tensor:
        """Return copies of the first rows."""
        return self.kernel.tensor(self.kernel.records(self.first, number)[self.field])

    def write(self, first_column: int, rows: Tensor) -> None:
        """Set the first rows, or some columns of their weight."""
        records = self.kernel.records(self.first, len(rows))
        field = records[self.field].reshape(len(rows), -1)  # a view
        values = array(rows).reshape(len(rows), -1)
        field[:, first_column : first_column + values.shape[1]] = values
        self.kernel.set_records(self.first, records)

    def after(self, first: int) -> StoredRows:
        """Return the rows from this one on."""
        return replace(self, first=self.first + first)
