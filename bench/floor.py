"""What a step takes at least: its matrix products, one after the other, and a copy of all bytes that it must move.

Nothing hides behind anything: each rank has one core for both. Of P ids a sample and table in F tables of D columns on
R ranks, B samples in all, U different rows among their ids, W numbers in the MLPs, a rank

    multiplies          each matrix of the MLPs three times, B ÷ R samples: forward, and backward to input and weight
    looks up            reads F · B · P ÷ R rows, writes F · B ÷ R sums
    updates             reads as many gradients as ids, reads and writes U ÷ R rows and their state
    exchanges           reads and writes F · B ÷ R vectors, and as many gradients; ids and lengths of 4 bytes
    reduces             reads and writes 2 · (R - 1) ÷ R of the MLPs' gradients
    updates the MLPs    reads gradients, weights and state, writes weights and state

That is with whole tables, evenly on the ranks. Activations, the interaction and copies of a socket's buffers are left
out, so no step can be that fast.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from bench.dlrm import Shape

_ELEMENT = 4  # bytes: float32, and an id on the wire
_COPIED_FROM = 64 * 2**20  # bytes that copies go through: rows of tables are in no cache either


@dataclass(frozen=True)
class Work:
    """Of one rank in one step: operations of matrix products; and of each part, bytes read and bytes written."""

    operations: int
    lookup: int
    update: int
    exchange: int
    reduction: int
    dense_update: int

    @property
    def traffic(self) -> int:
        """Bytes of all parts."""
        return self.lookup + self.update + self.exchange + self.reduction + self.dense_update


def work_of(shape: Shape, num_ranks: int, different: float) -> Work:
    """What this module's first lines say; `different` rows of all tables are looked up in a step."""
    samples, layers = shape.global_batch // num_ranks, list(shape.layers())
    weights = sum(inside * outside for inside, outside in layers)
    dense = _ELEMENT * (weights + sum(outside for _, outside in layers))
    unneeded = layers[0][0] * layers[0][1]  # nobody asks for the gradient of the dense features
    row, bags, touched = _ELEMENT * shape.dim, shape.tables * samples, round(different / num_ranks)
    ids = bags * shape.pooling
    return Work(
        operations=2 * samples * (3 * weights - unneeded),
        lookup=(ids + bags) * row,
        update=ids * row + 2 * touched * (row + _ELEMENT),
        exchange=2 * (2 * bags * row + (ids + bags) * _ELEMENT),
        reduction=2 * dense * 2 * (num_ranks - 1) // num_ranks,
        dense_update=5 * dense,
    )


def products(shape: Shape, num_ranks: int) -> Callable[[], None]:
    """What makes all matrix products of a step, as Linear and its backward do."""
    samples = shape.global_batch // num_ranks
    made = []
    for number, (inside, outside) in enumerate(shape.layers()):
        weight, bias = torch.randn(outside, inside), torch.randn(outside)
        before, after = torch.randn(samples, inside), torch.randn(samples, outside)
        gradient, of_weight = torch.randn(samples, outside), torch.empty_like(weight)
        of_before = torch.empty_like(before) if number else None  # nobody asks for that of the dense features
        made.append((before, weight, bias, after, gradient, of_weight, of_before))

    def multiply() -> None:
        for before, weight, bias, after, gradient, of_weight, of_before in made:
            torch.addmm(bias, before, weight.t(), out=after)
            torch.mm(gradient.t(), before, out=of_weight)
            if of_before is not None:
                torch.mm(gradient, weight, out=of_before)

    return multiply


def copies(traffic: int) -> Callable[[], None]:
    """What copies half as many bytes, for each is read and written."""
    size = traffic // 2
    begin, into = 0, torch.ones(max(_COPIED_FROM, size), dtype=torch.uint8)
    whole = torch.ones_like(into)

    def copy() -> None:
        nonlocal begin
        begin = begin if begin + size <= len(whole) else 0
        into[begin : begin + size].copy_(whole[begin : begin + size])
        begin += size

    return copy
