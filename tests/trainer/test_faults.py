"""Tests of data that cannot be used: the batch has the fault, and ids without a row are refused."""

import pytest
import torch

from trainer.batch import Batch
from trainer.errors import DataError
from trainer.faults import CheckedSource, check_ids, raise_on_all_ranks

ROWS = (10, 3)  # of two tables


def batch(ids: list[int], lengths: list[list[int]]) -> Batch:
    """Return two samples with these ids; `lengths` has the number of ids of each sample, table by table."""
    return Batch(torch.zeros(2, 4), torch.tensor(ids), torch.tensor(lengths), torch.zeros(2))


class Broken:
    """A source that cannot be read."""

    num_samples = None

    def batch(self, step: int, start: int, size: int) -> Batch:
        raise DataError("cannot read rows", "the disk is gone", "Look at the disk")

    def held_out(self) -> "Broken":
        return self


def test_ids_of_all_rows_are_accepted() -> None:
    check_ids(batch([0, 9, 0, 2], [[1, 1], [0, 2]]), ROWS, step=0, first_sample=0)
    check_ids(batch([], [[0, 0], [0, 0]]), ROWS, step=0, first_sample=0)


@pytest.mark.parametrize(
    ("ids", "table", "sample", "wrong"),
    [
        pytest.param([0, 10, 0, 2], 0, 41, 10, id="beyond the first table"),
        pytest.param([0, 9, 0, 3], 1, 41, 3, id="beyond the second table"),
        pytest.param([-1, 9, 0, 2], 0, 40, -1, id="negative"),
        pytest.param([0, 9, -2, 12], 1, 41, -2, id="negative before one beyond the table"),
    ],
)
def test_id_without_a_row_is_named_with_table_and_sample(ids, table, sample, wrong) -> None:
    message = rf"step 8 has id {wrong} of table {table} in sample {sample}: "  # messages count steps from 1
    with pytest.raises(DataError, match=message):
        check_ids(batch(ids, [[1, 1], [0, 2]]), ROWS, step=7, first_sample=40)


def test_held_out_batch_is_named_as_such() -> None:
    class WrongId(Broken):
        def batch(self, step: int, start: int, size: int) -> Batch:
            return batch([0, 9, 0, 3], [[1, 1], [0, 2]])

    source = CheckedSource(WrongId(), ROWS, dense_features=4)
    fault = source.batch(step=2, start=0, size=2).fault
    held_out_fault = source.held_out().batch(step=2, start=0, size=2).fault
    assert str(fault).startswith("step 3 has id 3 of table 1 in sample 1: ")
    assert str(held_out_fault).startswith("held-out batch 3 has id 3 of table 1 in sample 1: ")


def test_batch_that_cannot_be_read_has_its_fault_and_no_ids() -> None:
    source = CheckedSource(Broken(), ROWS, dense_features=4)
    replaced = source.batch(step=0, start=0, size=5)
    assert "the disk is gone" in str(replaced.fault)
    assert (replaced.dense.shape, replaced.lengths.shape) == ((5, 4), (2, 5))
    assert (len(replaced.ids), len(replaced.labels)) == (0, 5)
    assert source.held_out().batch(step=0, start=0, size=5).fault is not None


def test_fault_is_raised_with_all_its_parts(single_rank_world) -> None:
    with pytest.raises(DataError, match=r"rows: the disk is gone\. Look at the disk"):
        raise_on_all_ranks(DataError("cannot read rows", "the disk is gone", "Look at the disk"))


def test_nothing_is_raised_without_a_fault(single_rank_world) -> None:
    raise_on_all_ranks(None)
