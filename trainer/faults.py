"""Ends all ranks with the same line if the data of one rank has a fault.

A rank whose samples cannot be used still takes part in the step, with samples without ids, because the other ranks
wait for it. The sums that are all-reduced with the gradients tell all ranks that a rank must stop. Then each of them
raises the error here, before anything is saved. An error of the setup, such as a file that only rank 0 writes, ends all
ranks in the same way.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist

from trainer.batch import Batch
from trainer.errors import DataError, TrainerError
from trainer.loader import Source


@dataclass(frozen=True)
class CheckedSource:
    """A source that checks the ids of each batch. A batch with a fault has the fault as a field, and no ids."""

    source: Source
    rows: tuple[int, ...]  # of each table
    dense_features: int
    unit: str = "step"  # what a batch is called in errors

    @property
    def num_samples(self) -> int | None:
        """The number of samples; None: the source has no end."""
        return self.source.num_samples

    def batch(self, step: int, start: int, size: int) -> Batch:
        """Return samples `start` to `start + size` of the global batch of this step."""
        try:
            batch = self.source.batch(step, start, size)
            check_ids(batch, self.rows, step, start, self.unit)
        except DataError as fault:
            lengths = torch.zeros(len(self.rows), size, dtype=torch.int64)
            dense, labels = torch.zeros(size, self.dense_features), torch.zeros(size)
            return Batch(dense, lengths.new_empty(0), lengths, labels, fault)
        return batch

    def held_out(self) -> Source:
        """Return the source of the evaluation samples."""
        return CheckedSource(self.source.held_out(), self.rows, self.dense_features, "held-out batch")


def check_ids(batch: Batch, rows: Sequence[int], step: int, first_sample: int, unit: str = "step") -> None:
    """Raise DataError if an id is not a row of its table. `rows` has the number of rows of each table.

    `first_sample` is the position of the first sample in the global batch.
    """
    limits = torch.tensor(rows).repeat_interleave(batch.lengths.sum(dim=1), output_size=len(batch.ids))
    wrong = (batch.ids < 0) | (batch.ids >= limits)
    if not wrong.any():
        return
    position = int(wrong.nonzero()[0, 0])
    bag = int(torch.searchsorted(batch.lengths.flatten().cumsum(0), position, right=True))
    table, sample = divmod(bag, batch.lengths.shape[1])
    raise DataError(
        f"{unit} {step + 1} has id {int(batch.ids[position])} of table {table} in sample {first_sample + sample}",
        f"the table has rows 0 to {rows[table] - 1}",
        "Correct the source of the ids, or raise embedding.rows",
    )


def raise_on_all_ranks(fault: TrainerError | None) -> None:
    """Raise the fault of the lowest rank that has one. All ranks must call it together."""
    faults: list[tuple[type[TrainerError], tuple[str, str, str]] | None] = [None] * dist.get_world_size()
    dist.all_gather_object(faults, (type(fault), fault.parts) if fault else None)
    for rank_fault in faults:
        if rank_fault is not None:
            kind, parts = rank_fault
            raise kind(*parts)


@contextmanager
def same_error_on_all_ranks() -> Iterator[None]:
    """Raise an error of one rank on all ranks. All ranks must enter together.

    Inside, a rank must not communicate after a point at which another rank may have raised its error.
    """
    fault: TrainerError | None = None
    try:
        yield
    except TrainerError as error:
        fault = error
    raise_on_all_ranks(fault)
