"""Tests of the samples that are read from a DataLoader or from the shape of a batch."""

from collections import UserDict
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, DistributedSampler, IterableDataset

from zmon.probe.hooks.batches import input_size, leading_size, loaded_samples


class Numbers(Dataset):
    """Ten samples: a tensor of three numbers, and the index."""

    def __len__(self):
        return 10

    def __getitem__(self, index):
        return torch.zeros(3), index


class Stream(IterableDataset):
    """Ten equal samples without an index."""

    def __init__(self, item):
        self.item = item

    def __iter__(self):
        return iter([self.item] * 10)


class ByLength(BatchSampler):
    """A sampler whose batches have different sizes, as if it grouped texts by their length."""

    def __iter__(self):
        return iter([[0, 1], [2, 3, 4, 5, 6], [7, 8, 9]])


@dataclass
class Batch:
    """A batch whose class is of the job."""

    names: list[str]
    dense: torch.Tensor
    sparse: Any


def time_major(items):
    """Collate a batch whose second dimension is the samples."""
    return torch.stack([item[0] for item in items], dim=1)


def first(items):
    """Return the only item as it is."""
    return items[0]


def packed(items):
    """Collate a batch without a dimension for the samples."""
    return torch.cat([item[0] for item in items])


LOADERS = {  # a loader → the samples of each batch that it returns
    "batches of four": (DataLoader(Numbers(), 4), [4, 4, 2]),
    "last batch dropped": (DataLoader(Numbers(), 4, drop_last=True), [4, 4]),
    "first of two ranks": (
        DataLoader(Numbers(), 4, sampler=DistributedSampler(Numbers(), num_replicas=2, rank=0)), [4, 1],
    ),
    "samples in the second dimension": (DataLoader(Numbers(), 4, collate_fn=time_major), [4, 4, 2]),
    "no dimension for the samples": (DataLoader(Numbers(), 4, collate_fn=packed), [4, 4, 2]),
    "no tensor": (DataLoader(Numbers(), 4, collate_fn=str), [4, 4, 2]),
    "batches of different sizes": (
        DataLoader(Numbers(), batch_sampler=ByLength(range(10), batch_size=4, drop_last=False)), [2, 5, 3],
    ),
    "stream": (DataLoader(Stream(torch.zeros(3)), 4), [4, 4, 2]),
    "stream whose last batch cannot be known": (
        DataLoader(Stream((torch.zeros(3), 1)), 4, collate_fn=time_major), [4, 4, 3],
    ),
    "one sample, which is a batch": (
        DataLoader(Stream((torch.zeros(6, 2), torch.zeros(3, 6), torch.zeros(6, 1))), 1, collate_fn=first),
        [None] * 10,
    ),
    "one picture and its label": (DataLoader(Stream((torch.zeros(3, 8, 8), 1)), 1, collate_fn=first), [1] * 10),
    "one picture and its boxes": (
        DataLoader(Stream((torch.zeros(3, 8, 8), {"boxes": torch.zeros(5, 4)})), 1, collate_fn=first), [1] * 10,
    ),
    "one text with a label for each token": (DataLoader(Stream((torch.zeros(9), torch.zeros(9))), 1), [1] * 10),
    "batches of the data set itself": (DataLoader(Stream(torch.zeros(5, 3)), None), [5] * 10),
    "texts of the data set itself": (DataLoader(Stream("text"), None), [None] * 10),
}  # fmt: skip


@pytest.mark.parametrize(("loader", "expected"), LOADERS.values(), ids=LOADERS)
def test_samples_of_each_batch_that_a_loader_returns(loader, expected):
    batches = iter(loader)
    assert [loaded_samples(batches, batch) for batch in batches] == expected


BATCHES = {  # a batch → its samples; None: unknown
    "tensor": (torch.zeros(6, 2), 6),
    "list": ([torch.zeros(6, 2), torch.zeros(7)], 6),
    "nested": (((), {"ids": torch.zeros(6, 2)}), 6),
    "mapping": (UserDict(mask=None, ids=torch.zeros(6, 2)), 6),
    "dataclass": (Batch(["a"], torch.zeros(6, 2), None), 6),
    "a number first, such as a weight": ((torch.tensor(1.0), torch.zeros(6, 2)), 6),
    "nested tensor": (torch.nested.nested_tensor([torch.zeros(2, 8), torch.zeros(3, 8)]), 2),
    "only a number": (torch.tensor(1.0), None),
    "texts": (["a", "b"], None),
    "too deep": ([[[[[torch.zeros(6)]]]]], None),
    "class that is a dataclass": (Batch, None),
    "object": (object(), None),
    "nothing": (None, None),
}


@pytest.mark.parametrize(("batch", "expected"), BATCHES.values(), ids=BATCHES)
def test_leading_size_is_that_of_the_first_tensor_with_a_dimension(batch, expected):
    assert leading_size(batch) == expected


INPUTS = {  # the input of a model → its samples
    "rows": (torch.zeros(6, 2), 6),
    "tokens": (torch.zeros(6, dtype=torch.long), 6),
    "one sample without a batch": (torch.zeros(6), None),
    "nested tensor": (torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)]), 2),
    "nothing": (None, None),
}


@pytest.mark.parametrize(("inputs", "expected"), INPUTS.values(), ids=INPUTS)
def test_samples_in_the_input_of_a_model(inputs, expected):
    assert input_size(inputs) == expected
