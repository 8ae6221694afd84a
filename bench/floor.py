"""A lower bound of the duration of a step: its matrix products, plus one copy of all bytes that it must move.

Products and copies do not overlap, because each rank has one thread. With pooling factor P in F tables of D columns, R
ranks, B samples of the global batch and U distinct rows among their ids, a rank

    multiplies          each matrix of the MLPs three times by B ÷ R samples: forward, backward to input and to weight
    looks up            reads F · B · P ÷ R rows, writes F · B ÷ R sums
    updates             reads as many gradients as ids, reads and writes U ÷ R rows and their state
    exchanges           reads and writes F · B ÷ R vectors, and as many gradients; ids and lengths of 4 bytes
    reduces             reads and writes 2 · (R - 1) ÷ R of the MLPs' gradients
    updates the MLPs    reads gradients, weights and state, writes weights and state

The dense features need no gradient, so the first matrix is multiplied twice. A row or vector has D numbers of 4 bytes.
This assumes whole tables, distributed evenly over the ranks. Activations, the interaction and copies of socket buffers
are left out, so no real step reaches the bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from bench.dlrm import Shape

_ELEMENT_BYTES = 4  # bytes of a float32, and of an id on the network
_COPY_SOURCE_BYTES = 64 * 2**20  # larger than caches, like the rows of tables


@dataclass(frozen=True)
class Work:
    """The work of one rank in one step: its matrix products, and the bytes that each part reads and writes."""

    operations: int  # multiplications and additions of the matrix products
    lookup_bytes: int
    update_bytes: int
    exchange_bytes: int
    reduction_bytes: int
    dense_update_bytes: int

    @property
    def traffic_bytes(self) -> int:
        """The bytes of all parts."""
        return (
            self.lookup_bytes + self.update_bytes + self.exchange_bytes + self.reduction_bytes + self.dense_update_bytes
        )


def work_of(shape: Shape, num_ranks: int, distinct_rows: float) -> Work:
    """Return the work of a rank by the formulas above; a step looks up `distinct_rows` of all tables."""
    samples = shape.global_batch // num_ranks
    layers = list(shape.layers())
    weights = sum(num_inputs * num_outputs for num_inputs, num_outputs in layers)
    dense = _ELEMENT_BYTES * (weights + sum(num_outputs for _, num_outputs in layers))
    no_gradient = layers[0][0] * layers[0][1]  # the dense features need no gradient
    row = _ELEMENT_BYTES * shape.dim
    bags = shape.tables * samples
    touched = round(distinct_rows / num_ranks)
    ids = bags * shape.pooling
    return Work(
        operations=2 * samples * (3 * weights - no_gradient),
        lookup_bytes=(ids + bags) * row,
        update_bytes=ids * row + 2 * touched * (row + _ELEMENT_BYTES),
        exchange_bytes=2 * (2 * bags * row + (ids + bags) * _ELEMENT_BYTES),
        reduction_bytes=2 * dense * 2 * (num_ranks - 1) // num_ranks,
        dense_update_bytes=5 * dense,
    )


def products(shape: Shape, num_ranks: int) -> Callable[[], None]:
    """Return a function that computes all matrix products of a step, as Linear and its backward pass do."""
    samples = shape.global_batch // num_ranks
    layers = []
    for number, (num_inputs, num_outputs) in enumerate(shape.layers()):
        weight, bias = torch.randn(num_outputs, num_inputs), torch.randn(num_outputs)
        before, after = torch.randn(samples, num_inputs), torch.randn(samples, num_outputs)
        gradient = torch.randn(samples, num_outputs)
        weight_gradient = torch.empty_like(weight)
        input_gradient = torch.empty_like(before) if number else None  # the dense features need no gradient
        layers.append((before, weight, bias, after, gradient, weight_gradient, input_gradient))

    def multiply() -> None:
        for before, weight, bias, after, gradient, weight_gradient, input_gradient in layers:
            torch.addmm(bias, before, weight.t(), out=after)
            torch.mm(gradient.t(), before, out=weight_gradient)
            if input_gradient is not None:
                torch.mm(gradient, weight, out=input_gradient)

    return multiply


def copies(num_bytes: int) -> Callable[[], None]:
    """Return a function that copies half of this many bytes, because each byte is read and written."""
    size = num_bytes // 2
    begin = 0
    target = torch.ones(max(_COPY_SOURCE_BYTES, size), dtype=torch.uint8)
    source = torch.ones_like(target)

    def copy() -> None:
        nonlocal begin
        begin = begin if begin + size <= len(source) else 0
        target[begin : begin + size].copy_(source[begin : begin + size])
        begin += size

    return copy
