"""Lookup and exact update of embedding rows: the interface of a kernel, and the kernel in plain torch.

Shapes: G bags, N rows looked up, U distinct rows among them, D columns.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from trainer.optimizers import RULES, OptimizerConfig, RowUpdate, add_to_rows

# Bytes of gradients merged at a time. On a CPU they fit into its cache and need no new pages from Linux, which halves
# the time of an update of many rows. On a GPU each piece costs a dozen launches, and only memory limits it.
_PIECE_BYTES = {"cpu": 1 << 20, "cuda": 256 << 20}


@dataclass(frozen=True)
class Bags:
    """G bags with N rows in total. A bag may be empty."""

    rows: Tensor  # (N,) row numbers of the weight
    lengths: Tensor  # (G,) rows in each bag

    def shift_rows(self, shifts: Tensor) -> "Bags":
        """Return the bags with a shift (G,) added to all rows of each bag, as 64-bit numbers."""
        shift_of_row = shifts.repeat_interleave(self.lengths, output_size=len(self.rows))
        return Bags(self.rows + shift_of_row, self.lengths)

    @cached_property
    def offsets(self) -> Tensor:
        """The position of the first row of each bag in `rows`, and the end of the last bag (G + 1,)."""
        offsets = self.rows.new_zeros(len(self.lengths) + 1)
        torch.cumsum(self.lengths, 0, out=offsets[1:])
        return offsets

    @cached_property
    def bag_of_row(self) -> Tensor:
        """The bag of each row (N,)."""
        bags = torch.arange(len(self.lengths), dtype=self.rows.dtype, device=self.rows.device)
        return bags.repeat_interleave(self.lengths, output_size=len(self.rows))


class Precision:
    """The type of weights. Here it is also the type of computation; a subclass may store weights in another type."""

    def __init__(self, dtype: torch.dtype, compute_dtype: torch.dtype | None = None) -> None:
        """`dtype` is the type of weights, `compute_dtype` the type of sums, gradients, updates and optimizer state."""
        self.dtype = dtype
        self.compute_dtype = compute_dtype or dtype

    def sums(self, weight: Tensor, bags: Bags) -> Tensor:
        """Return the sum of the rows of each bag (G, D), 0 for an empty bag."""
        return sums(weight, bags.rows, bags.offsets)

    def add(self, weight: Tensor, rows: Tensor, change: Tensor, step: int, slots: Tensor) -> None:
        """Add a change to distinct rows (U,) in a step. `slots` (U,) are the places of these rows in the weight."""
        add_to_rows(weight, slots, change)


class Merged(NamedTuple):
    """Distinct rows and their gradients."""

    rows: Tensor  # (U,)
    gradient: Tensor  # (U, D)


class Kernel(ABC):
    """Embedding rows: a weight (rows, D), and an optimizer state with a number for each row or for each weight."""

    weight: Tensor
    state: Tensor

    def read(self, first: int, num_rows: int) -> tuple[Tensor, Tensor]:
        """Return the weight (n, D) and the optimizer state (n, …) of n rows: views, or copies from a disk."""
        return self.weight.narrow(0, first, num_rows), self.state.narrow(0, first, num_rows)

    def write(self, first: int, weight: Tensor, state: Tensor | None = None) -> None:
        """Set the weight (n, D) and the optimizer state (n, …), which is 0 if not given, of rows from `first` on."""
        old_weight, old_state = self.read(first, len(weight))
        old_weight.copy_(weight)
        old_state.zero_() if state is None else old_state.copy_(state)

    @abstractmethod
    def begin(self, step: int, learning_rate: float) -> None:
        """Begin a step with one lookup and one update, which has this learning rate."""

    @abstractmethod
    def lookup(self, bags: Bags) -> Tensor:
        """Return the sum of the rows of each bag (G, D), 0 for an empty bag."""

    @abstractmethod
    def update(self, bags: Bags, gradient: Tensor, learning_rate: float) -> None:
        """Update each row of the last lookup once and exactly, given the gradient (G, D) of the sums."""


class TorchKernel(Kernel):
    """A kernel in plain torch, for any number of rows."""

    def __init__(
        self, optimizer: OptimizerConfig, shape: tuple[int, int], precision: Precision, device: torch.device
    ) -> None:
        """`shape` is (rows, D)."""
        num_rows, dim = shape
        self.weight = torch.empty(num_rows, dim, dtype=precision.dtype, device=device)
        self.state = torch.zeros(optimizer.state_shape(shape), dtype=precision.compute_dtype, device=device)
        self._rule, self._epsilon = RULES[optimizer.embedding], optimizer.embedding_epsilon
        self._precision = precision
        self._step = 0
        self._piece_rows = max(1, _PIECE_BYTES[device.type] // (dim * precision.compute_dtype.itemsize))

    def begin(self, step: int, learning_rate: float) -> None:
        """Begin a step. `update` has the learning rate too: only FBGEMM needs it before the lookup."""
        self._step = step

    def prefetch(self, bags: Bags) -> None:
        """Do nothing, because all rows are in memory. A kernel with rows on a disk begins to read them."""

    def lookup(self, bags: Bags) -> Tensor:
        return self._precision.sums(self.weight, bags)

    def update(self, bags: Bags, gradient: Tensor, learning_rate: float) -> None:
        """Update each distinct row once, given the gradient (G, D) of the sums.

        Every row of a bag has the gradient of the bag's sum. The gradient of a row is the sum over the bags that
        contain it, which is another lookup. Its order is that of the global batch, for any number of ranks.
        """
        for merged in _merge_by_row(bags, gradient, self._piece_rows):
            self.apply(merged, learning_rate)

    def merge(self, bags: Bags, gradient: Tensor) -> Merged:
        """Return the gradients of all distinct rows, for `apply`."""
        one_piece = _merge_by_row(bags, gradient, piece_rows=max(1, len(bags.rows)))
        return next(one_piece, Merged(bags.rows[:0], gradient[:0]))

    def apply(
        self, merged: Merged, learning_rate: float, mean_squares: Tensor | None = None, slots: Tensor | None = None
    ) -> None:
        """Update rows, given their gradients and, if the weight has only some columns, the mean squares of all (U,).

        `slots` (U,) are the places of the rows in the weight, for a weight that is a cache.
        """
        slots = merged.rows if slots is None else slots
        change = self._rule(RowUpdate(self.state, slots, merged.gradient, mean_squares), learning_rate, self._epsilon)
        self._precision.add(self.weight, merged.rows, change, self._step, slots)


def _merge_by_row(bags: Bags, gradient: Tensor, piece_rows: int) -> Iterator[Merged]:
    """Yield the gradients of the distinct rows in pieces, sorted by row."""
    rows, order = bags.rows.sort(stable=True)
    bags_by_row = bags.bag_of_row.index_select(0, order)
    if rows.is_cuda:
        yield _merge_without_counting(rows, bags_by_row, gradient)
        return
    touched, counts = torch.unique_consecutive(rows, return_counts=True)
    # `bags_by_row` (N,) has the bags with the first touched row, then the bags with the second, …
    offsets = Bags(rows, counts).offsets  # (U + 1,)
    for first in range(0, len(touched), piece_rows):
        edges = offsets[first : first + piece_rows + 1]
        row_gradients = sums(gradient, bags_by_row[edges[0] : edges[-1]], edges - edges[0])
        yield Merged(touched[first : first + piece_rows], row_gradients)


def _merge_without_counting(rows: Tensor, bags_by_row: Tensor, gradient: Tensor) -> Merged:
    """Merge the gradients of each distinct row, given sorted rows (N,) and the bag of each.

    The number of distinct rows stays on the GPU, because reading it would stop the CPU. So the result has N gradients.
    The gradients after the last distinct row are zero: they belong to any row, and change nothing.
    """
    num_rows = len(rows)
    if not num_rows:
        return Merged(rows, gradient[:0])
    positions = torch.arange(num_rows, device=rows.device)
    is_first = torch.ones_like(rows, dtype=torch.bool)
    torch.ne(rows[1:], rows[:-1], out=is_first[1:])
    index = is_first.cumsum(0) - 1  # (N,) the index of each row among the distinct rows
    touched = rows.scatter(0, index, rows)
    offsets = positions.new_full((num_rows + 1,), num_rows).scatter_reduce_(0, index, positions, "amin")
    return Merged(touched, sums(gradient, bags_by_row, offsets.to(bags_by_row.dtype)))


def sums(weight: Tensor, rows: Tensor, offsets: Tensor) -> Tensor:
    """Return the sum of the rows of each bag (G, D), 0 for an empty bag; `offsets` are those of `Bags`."""
    return F.embedding_bag(rows, weight, offsets, mode="sum", include_last_offset=True)
