"""The order of vectors: as shards compute them, as they travel, and as the model reads them.

Vectors travel as plain numbers, ordered by rank, then by group, then by shard, then by sample. Usually all of them
have one width. Then nothing is copied to put them into this order.

Shapes: B samples of this rank, F features, D columns, n vectors of a sample that have one width, u units among them.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from trainer.sharding import Group, Unit

ByWidth = dict[int, Tensor]  # vectors of each number of columns


class Departures:
    """The vectors of the local groups, to or from the ranks of the samples."""

    def __init__(self, groups: Sequence[Group], reached: Sequence[Sequence[int]]) -> None:
        """`reached` has the ranks that exchange vectors with each group: all, or some of them."""
        self._groups, self._reached = groups, reached
        self._order = sorted((rank, number) for number, ranks in enumerate(reached) for rank in ranks)

    def sizes(self, samples: Sequence[int]) -> list[int]:
        """Return the numbers that each rank receives."""
        sizes = [0] * len(samples)
        for rank, number in self._order:
            sizes[rank] += self._size(rank, number, samples)
        return sizes

    def flatten(self, vectors: Sequence[Tensor], samples: Sequence[int], empty: Tensor) -> Tensor:
        """Return the vectors of all groups as they travel; `empty` if there is no group."""
        if len(vectors) <= 1:
            return vectors[0].flatten() if vectors else empty
        pieces: dict[tuple[int, int], Tensor] = {}  # by rank and number of the group
        for number, (group, ranks) in enumerate(zip(self._groups, self._reached, strict=True)):
            by_rank = vectors[number].split([len(group.units) * samples[rank] for rank in ranks])
            pieces.update(((rank, number), piece) for rank, piece in zip(ranks, by_rank, strict=True))
        return torch.cat([pieces[place].flatten() for place in self._order])

    def by_group(self, flat: Tensor, samples: Sequence[int]) -> list[Tensor]:
        """Return the vectors of each group, the reverse of `flatten`."""
        if len(self._groups) <= 1:
            return [flat.view(-1, group.width) for group in self._groups]
        pieces = dict(zip(self._order, flat.split([self._size(*place, samples) for place in self._order]), strict=True))
        return [
            torch.cat([pieces[rank, number] for rank in ranks]).view(-1, group.width)
            for number, (group, ranks) in enumerate(zip(self._groups, self._reached, strict=True))
        ]

    def _size(self, rank: int, number: int, samples: Sequence[int]) -> int:
        group = self._groups[number]
        return samples[rank] * len(group.units) * group.width


class Arrivals:
    """The vectors of this rank's samples, from the groups of all ranks and from replicated tables."""

    def __init__(
        self, sources: Sequence[Sequence[Group]], replicated: Sequence[int], dims: Sequence[int], device: torch.device
    ) -> None:
        """`sources` are the groups of each rank whose vectors arrive here; `dims` are the columns of each table."""
        self._sources, self._pieces = sources, [group for groups in sources for group in groups]
        by_width: dict[int, list[Unit]] = {}
        for group in self._pieces:
            by_width.setdefault(group.width, []).extend(group.units)
        self._num_sharded = {width: len(units) for width, units in by_width.items()}
        for table in replicated:
            by_width.setdefault(dims[table], []).append(Unit(table, 0, dims[table]))
        self._widths = {width: _Width(units, device) for width, units in by_width.items()}
        self._units = sorted(unit for width in self._widths.values() for unit in width.units)
        self._uniform = len(self._widths) == 1 and len(self._units) == len(dims)

    def sizes(self, num_samples: int) -> list[int]:
        """Return the numbers that each rank sends."""
        return [sum(len(group.units) * group.width for group in groups) * num_samples for groups in self._sources]

    def merge(self, flat: Tensor, replicated: ByWidth) -> Tensor:
        """Order all vectors of this rank's samples by table. Add up the vectors of a table whose rows are divided.

        Return (F, B, D), or (B, sum of all D) if the tables or their shards have several widths.
        """
        sharded = self._by_width(flat)
        columns: dict[Unit, Tensor] = {}
        for dim, width in self._widths.items():
            sums = width.add_parts(_concatenate(sharded.get(dim), replicated.get(dim)))
            if self._uniform:  # there is no other width
                return sums
            columns.update(zip(width.units, sums.unbind(), strict=True))
        return torch.cat([columns[unit] for unit in self._units], dim=1)

    def split(self, gradient: Tensor) -> tuple[Tensor, ByWidth]:
        """Split the gradient of the result of `merge`: as it travels to the shards, and for replicated tables."""
        columns: dict[Unit, Tensor] = {}
        if not self._uniform:
            by_unit = gradient.split([unit.num_columns for unit in self._units], dim=1)
            columns.update(zip(self._units, by_unit, strict=True))
        sharded, replicated = ByWidth(), ByWidth()
        for dim, width in self._widths.items():
            sums = gradient if self._uniform else torch.stack([columns[unit] for unit in width.units])
            vectors, number = width.copy_to_parts(sums), self._num_sharded.get(dim, 0)
            sharded[dim], replicated[dim] = vectors[:number], vectors[number:].flatten(0, 1)
        return self._in_order(sharded), replicated

    def by_sample(self, merged: Tensor) -> Tensor:
        """Return a view of the result of `merge` for the model, by sample: (B, F, D) or (B, sum of all D)."""
        return merged.transpose(0, 1) if self._uniform else merged

    def _by_width(self, flat: Tensor) -> ByWidth:
        if len(self._num_sharded) <= 1:
            return {width: flat.view(-1, width) for width in self._num_sharded}
        per_sample = sum(len(group.units) * group.width for group in self._pieces)
        num_samples = len(flat) // per_sample
        pieces = flat.split([num_samples * len(group.units) * group.width for group in self._pieces])
        by_width: dict[int, list[Tensor]] = {}
        for group, piece in zip(self._pieces, pieces, strict=True):
            by_width.setdefault(group.width, []).append(piece.view(-1, group.width))
        return {width: torch.cat(vectors) for width, vectors in by_width.items()}

    def _in_order(self, by_width: ByWidth) -> Tensor:
        """Return the vectors (n, B, width) of each width as they travel, the reverse of `_by_width`."""
        if len(self._num_sharded) <= 1:
            return by_width[next(iter(self._num_sharded or by_width))].flatten()
        next_vector, pieces = dict.fromkeys(self._num_sharded, 0), []
        for group in self._pieces:
            begin, number = next_vector[group.width], len(group.units)
            pieces.append(by_width[group.width][begin : begin + number].flatten())
            next_vector[group.width] += number
        return torch.cat(pieces)


class _Width:
    """The vectors of one width. Vectors that belong to the same unit are parts of a sum."""

    def __init__(self, units: Sequence[Unit], device: torch.device) -> None:
        self.units = sorted(set(units))
        number_of = {unit: number for number, unit in enumerate(self.units)}
        self._numbers = torch.tensor([number_of[unit] for unit in units], device=device)  # (n,)
        self._in_order = self._numbers.argsort() if len(self.units) == len(units) else None

    def add_parts(self, vectors: Tensor) -> Tensor:
        """Add up the vectors of each unit: (n · B, width) → (u, B, width)."""
        vectors = vectors.view(len(self._numbers), -1, vectors.shape[1])
        if self._in_order is not None:
            # This copies whole rows, which is four times as fast as vectors[…].
            return vectors.index_select(0, self._in_order)
        return vectors.new_zeros(len(self.units), *vectors.shape[1:]).index_add_(0, self._numbers, vectors)

    def copy_to_parts(self, sums: Tensor) -> Tensor:
        """Copy the vector of each unit to all its parts: (u, B, width) → (n, B, width)."""
        return sums.index_select(0, self._numbers)


def _concatenate(*vectors: Tensor | None) -> Tensor:
    present = [part for part in vectors if part is not None and len(part)]
    return present[0] if len(present) == 1 else torch.cat([part for part in vectors if part is not None])
