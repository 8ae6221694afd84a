"""The order of vectors: as shards compute them, as they travel, and as the model reads them.

Vectors travel as plain numbers, ordered by rank, then by group, then by shard, then by sample. Usually all vectors have
one width. Then nothing is copied to put them into this order.

Shapes: B samples of this rank, F features, D columns; n vectors of a sample have one width, u units are among them.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from trainer.sharding import Group, Unit

ByWidth = dict[int, Tensor]  # vectors of each number of columns


class Departures:
    """The vectors of the local groups, to or from the ranks of the samples."""

    def __init__(self, groups: Sequence[Group], partners: Sequence[Sequence[int]]) -> None:
        """`partners` has the ranks that exchange vectors with each group: all ranks, or some of them."""
        self._groups = groups
        self._partners = partners
        # The rank and the index of the group of each piece, in the order in which the pieces travel
        self._pieces = sorted((rank, index) for index, ranks in enumerate(partners) for rank in ranks)

    def sizes(self, samples: Sequence[int]) -> list[int]:
        """Return how many numbers travel between this rank and each rank."""
        sizes = [0] * len(samples)
        for rank, index in self._pieces:
            sizes[rank] += self._size(rank, index, samples)
        return sizes

    def flatten(self, vectors: Sequence[Tensor], samples: Sequence[int], no_vectors: Tensor) -> Tensor:
        """Return the vectors of all groups as they travel; `no_vectors` if there is no group."""
        if len(vectors) <= 1:
            return vectors[0].flatten() if vectors else no_vectors
        pieces: dict[tuple[int, int], Tensor] = {}
        for index, (group, ranks) in enumerate(zip(self._groups, self._partners, strict=True)):
            by_rank = vectors[index].split([len(group.units) * samples[rank] for rank in ranks])
            for rank, piece in zip(ranks, by_rank, strict=True):
                pieces[rank, index] = piece.flatten()
        return torch.cat([pieces[key] for key in self._pieces])

    def by_group(self, flat: Tensor, samples: Sequence[int]) -> list[Tensor]:
        """Return the vectors of each group, the reverse of `flatten`."""
        if len(self._groups) <= 1:
            return [flat.view(-1, group.width) for group in self._groups]
        sizes = [self._size(rank, index, samples) for rank, index in self._pieces]
        pieces = dict(zip(self._pieces, flat.split(sizes), strict=True))
        return [
            torch.cat([pieces[rank, index] for rank in ranks]).view(-1, group.width)
            for index, (group, ranks) in enumerate(zip(self._groups, self._partners, strict=True))
        ]

    def _size(self, rank: int, index: int, samples: Sequence[int]) -> int:
        """Return how many numbers travel between a rank and the group with this index."""
        group = self._groups[index]
        return samples[rank] * len(group.units) * group.width


class Arrivals:
    """The vectors of this rank's samples, from the groups of all ranks and from replicated tables."""

    def __init__(
        self, sources: Sequence[Sequence[Group]], replicated: Sequence[int], dims: Sequence[int], device: torch.device
    ) -> None:
        """`sources` has the groups of each rank whose vectors arrive here. `dims` has the columns of each table."""
        self._sources = sources
        self._groups = [group for groups in sources for group in groups]
        by_width: dict[int, list[Unit]] = {}
        for group in self._groups:
            by_width.setdefault(group.width, []).extend(group.units)
        self._num_sharded = {width: len(units) for width, units in by_width.items()}
        for table in replicated:
            by_width.setdefault(dims[table], []).append(Unit(table, first_column=0, num_columns=dims[table]))
        self._widths = {width: _SameWidth(units, device) for width, units in by_width.items()}
        self._units = sorted(unit for same_width in self._widths.values() for unit in same_width.units)
        self._is_uniform = len(self._widths) == 1 and len(self._units) == len(dims)  # one unit for each table

    def sizes(self, num_samples: int) -> list[int]:
        """Return how many numbers each rank sends."""
        return [sum(len(group.units) * group.width for group in groups) * num_samples for groups in self._sources]

    def merge(self, flat: Tensor, replicated: ByWidth) -> Tensor:
        """Order all vectors of this rank's samples by table. Add up the vectors of a table that is divided by rows.

        Return (F, B, D), or (B, sum of all D) if the tables or their shards have several widths.
        """
        sharded = self._by_width(flat)
        columns: dict[Unit, Tensor] = {}
        for width, same_width in self._widths.items():
            sums = same_width.add_parts(_concatenate(sharded.get(width), replicated.get(width)))
            if self._is_uniform:  # there is no other width
                return sums
            columns.update(zip(same_width.units, sums.unbind(), strict=True))
        return torch.cat([columns[unit] for unit in self._units], dim=1)

    def split(self, gradient: Tensor) -> tuple[Tensor, ByWidth]:
        """Split the gradient of the result of `merge`: as it travels to the shards, and for replicated tables."""
        columns: dict[Unit, Tensor] = {}
        if not self._is_uniform:
            by_unit = gradient.split([unit.num_columns for unit in self._units], dim=1)
            columns.update(zip(self._units, by_unit, strict=True))
        sharded, replicated = ByWidth(), ByWidth()
        for width, same_width in self._widths.items():
            sums = gradient if self._is_uniform else torch.stack([columns[unit] for unit in same_width.units])
            vectors, num_sharded = same_width.copy_to_parts(sums), self._num_sharded.get(width, 0)
            sharded[width] = vectors[:num_sharded]
            replicated[width] = vectors[num_sharded:].flatten(0, 1)
        return self._flatten(sharded), replicated

    def by_sample(self, merged: Tensor) -> Tensor:
        """Return a view of the result of `merge` for the model, by sample: (B, F, D) or (B, sum of all D)."""
        return merged.transpose(0, 1) if self._is_uniform else merged

    def _by_width(self, flat: Tensor) -> ByWidth:
        """Return the vectors that arrived, by width."""
        if len(self._num_sharded) <= 1:
            return {width: flat.view(-1, width) for width in self._num_sharded}
        numbers_per_sample = [len(group.units) * group.width for group in self._groups]
        num_samples = len(flat) // sum(numbers_per_sample)
        pieces = flat.split([num_samples * numbers for numbers in numbers_per_sample])
        by_width: dict[int, list[Tensor]] = {}
        for group, piece in zip(self._groups, pieces, strict=True):
            by_width.setdefault(group.width, []).append(piece.view(-1, group.width))
        return {width: torch.cat(vectors) for width, vectors in by_width.items()}

    def _flatten(self, by_width: ByWidth) -> Tensor:
        """Return the vectors (n, B, width) of each width as they travel, the reverse of `_by_width`."""
        if len(self._num_sharded) <= 1:
            return by_width[next(iter(self._num_sharded or by_width))].flatten()
        pieces, next_vector = [], dict.fromkeys(self._num_sharded, 0)
        for group in self._groups:
            first = next_vector[group.width]
            next_vector[group.width] = end = first + len(group.units)
            pieces.append(by_width[group.width][first:end].flatten())
        return torch.cat(pieces)


class _SameWidth:
    """The vectors of one width. Vectors that belong to the same unit are parts of a sum."""

    def __init__(self, units: Sequence[Unit], device: torch.device) -> None:
        """`units` has the unit of each vector, in the order in which the vectors arrive."""
        self.units = sorted(set(units))
        index_of = {unit: index for index, unit in enumerate(self.units)}
        self._unit_of_vector = torch.tensor([index_of[unit] for unit in units], device=device)  # (n,)
        self._in_order = self._unit_of_vector.argsort() if len(self.units) == len(units) else None

    def add_parts(self, vectors: Tensor) -> Tensor:
        """Add up the vectors of each unit: (n · B, width) → (u, B, width)."""
        vectors = vectors.view(len(self._unit_of_vector), -1, vectors.shape[1])
        if self._in_order is not None:
            # This copies whole rows, which is four times as fast as vectors[…].
            return vectors.index_select(0, self._in_order)
        return vectors.new_zeros(len(self.units), *vectors.shape[1:]).index_add_(0, self._unit_of_vector, vectors)

    def copy_to_parts(self, sums: Tensor) -> Tensor:
        """Copy the vector of each unit to all its parts: (u, B, width) → (n, B, width)."""
        return sums.index_select(0, self._unit_of_vector)


def _concatenate(*vectors: Tensor | None) -> Tensor:
    """Concatenate the tensors that are not None; a single one with vectors is returned without a copy."""
    present = [part for part in vectors if part is not None]
    with_vectors = [part for part in present if len(part)]
    return with_vectors[0] if len(with_vectors) == 1 else torch.cat(present)
