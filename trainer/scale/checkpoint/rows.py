"""The content of a checkpoint: tensors by name. A rank holds no row, some rows and columns, or all of a tensor.

torch.distributed.checkpoint saves global tensors in chunks, independent of the rank that wrote them. It reads any part
of a tensor from the chunks that overlap with it. This is why a checkpoint of four ranks can be loaded by one rank, or
with another kind of sharding. Its types for the placement of tensors are too narrow here: a DTensor is cut evenly over
a mesh of ranks; a ShardedTensor is created by a collective, needs the placement on all ranks and has each row once. The
two planners below describe the placement themselves, as planners are meant to.

Shapes: N rows of a tensor, n rows of a part of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch.distributed.checkpoint import DefaultLoadPlanner, DefaultSavePlanner
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import LoadPlan, ReadItem, SavePlan, TensorWriteData, WriteItem, WriteItemType
from torch.distributed.checkpoint.planner_helpers import create_read_items_for_chunk_list

CHUNK_BYTES = 16 << 20  # maximum size of a chunk; a load reads whole chunks, and a save copies them


class DiskRows(Protocol):
    """The rows of a part that are on a disk."""

    def read(self, num_rows: int) -> Tensor:
        """Return copies of the first rows."""

    def write(self, first_column: int, rows: Tensor) -> None:
        """Set the first rows, or some of their columns."""

    def after(self, num_rows: int) -> DiskRows:
        """Return the rows without the first ones."""


class Part(NamedTuple):
    """Some rows and columns of a tensor, in memory or on a disk."""

    first_row: int
    tensor: Tensor  # (n, …); of rows on a disk it has shape and type only (the device `meta`)
    first_column: int = 0
    disk: DiskRows | None = None

    def read(self) -> Tensor:
        """Return the rows: the tensor itself, or a copy from the disk."""
        return self.tensor if self.disk is None else self.disk.read(len(self.tensor)).view(self.tensor.shape)


@dataclass(frozen=True)
class Rows:
    """A tensor of `num_rows` rows, with the parts that this rank holds.

    The parts may be views of one large tensor; they are read and written in place. Rows that several ranks hold are
    written once. `num_columns` is needed if a part has not all columns. If the type of numbers `may_differ`, a load
    rounds those of the checkpoint to the nearest ones of this run.
    """

    num_rows: int
    parts: Sequence[Part] = ()
    num_columns: int | None = None
    may_differ: bool = False

    def size(self, tensor: Tensor) -> torch.Size:
        """Return the size of the whole tensor, of which `tensor` is a part."""
        if self.num_columns is not None:
            return torch.Size([self.num_rows, self.num_columns])
        return torch.Size([self.num_rows, *tensor.shape[1:]])


State = Mapping[str, Rows]  # by name; all ranks have the same names


class Mismatch(Exception):
    """The checkpoint does not match the tensors of this run; the message is the same on all ranks."""


def whole(tensor: Tensor) -> Rows:
    """Return the rows of a tensor that is equal on every rank."""
    tensor = tensor if tensor.dim() else tensor.view(1)  # a number is a row
    return Rows(len(tensor), (Part(0, tensor),))


def chunks(state: State) -> dict[MetadataIndex, tuple[Part, torch.Size]]:
    """Return the chunks of this rank, each with the size of its whole tensor."""
    return {
        MetadataIndex(name, _offsets(part)): (part, rows.size(part.tensor))
        for name, rows in state.items()
        for part in _cut(rows.parts)
    }


def _cut(parts: Sequence[Part]) -> Iterator[Part]:
    """Divide parts into parts of at most `CHUNK_BYTES`, or of one row."""
    for first_row, tensor, first_column, disk in parts:
        if tensor.numel():
            num_rows = max(1, CHUNK_BYTES // tensor[0].nbytes)
            for start, chunk in zip(range(0, len(tensor), num_rows), tensor.split(num_rows), strict=True):
                yield Part(first_row + start, chunk.detach(), first_column, disk and disk.after(start))


class RowSavePlanner(DefaultSavePlanner):
    """A save planner for the chunks of this rank.

    The default planner decides which rank writes a chunk that several ranks hold, and checks that tensors are complete.
    """

    def __init__(self, local_chunks: Mapping[MetadataIndex, tuple[Part, torch.Size]]) -> None:
        super().__init__(flatten_state_dict=False, flatten_sharded_tensors=False)
        self.local_chunks = local_chunks
        self.copies: dict[MetadataIndex, Tensor] = {}

    def create_local_plan(self) -> SavePlan:
        """Return a plan with one item for each chunk."""
        return SavePlan([_item(index, *chunk) for index, chunk in self.local_chunks.items()])

    def copy(self, plan: SavePlan) -> None:
        """Copy the chunks that this rank writes, none of them on a disk; the save then writes the copies.

        The copies stay allocated for the next save, because new memory costs a page fault for every 4 KiB.
        """
        for item in plan.items:
            tensor = self.local_chunks[item.index][0].tensor
            if item.index not in self.copies:
                self.copies[item.index] = torch.empty_like(tensor, device="cpu", pin_memory=tensor.is_cuda)
            self.copies[item.index].copy_(tensor)

    def lookup_object(self, index: MetadataIndex) -> Tensor:
        """Return a chunk to write: its copy, if there is one. Rows on a disk are read now, one chunk at a time."""
        copy = self.copies.get(index)
        return self.local_chunks[index][0].read() if copy is None else copy


class RowLoadPlanner(DefaultLoadPlanner):
    """A load planner for the rows that this rank holds. Raises Mismatch if the checkpoint has other tensors."""

    def __init__(self, state: State) -> None:
        super().__init__(flatten_state_dict=False, flatten_sharded_tensors=False)
        self.state = state
        self.parts = {
            MetadataIndex(name, _offsets(part)): part._replace(tensor=part.tensor.detach())
            for name, rows in state.items()
            for part in rows.parts
            if part.tensor.numel()
        }

    def create_local_plan(self) -> LoadPlan:
        """Return a plan with one item for each overlap of this rank's rows with a saved chunk."""
        assert self.metadata is not None
        _check(self.state, self.metadata)
        chunks_by_name: dict[str, list[ChunkStorageMetadata]] = {}
        for index, part in self.parts.items():
            chunks_by_name.setdefault(index.fqn, []).append(_chunk(index, part.tensor))
        items: list[ReadItem] = []
        for name, local_chunks in chunks_by_name.items():
            items += create_read_items_for_chunk_list(name, _saved_tensor(self.metadata, name), local_chunks)
        return LoadPlan(items)

    def lookup_tensor(self, index: MetadataIndex) -> Tensor:
        """Return the tensor to read a part into."""
        return self.parts[index].tensor

    def resolve_tensor(self, read_item: ReadItem) -> Tensor:
        """Return the rows and columns to read into; of rows on a disk they are new."""
        part = self.parts[read_item.dest_index]
        if part.disk is None:
            return super().resolve_tensor(read_item)
        return torch.empty(read_item.lengths, dtype=part.tensor.dtype)

    def commit_tensor(self, read_item: ReadItem, tensor: Tensor) -> None:
        """Write what was read for rows on a disk."""
        disk = self.parts[read_item.dest_index].disk
        if disk is not None:
            first_row, *first_column = read_item.dest_offsets
            disk.after(first_row).write(first_column[0] if first_column else 0, tensor)


def _check(state: State, metadata: Metadata) -> None:
    """Raise Mismatch unless the checkpoint has the tensors of this run, with their sizes and types."""
    names = metadata.state_dict_metadata.keys()
    if missing := sorted(state.keys() - names):
        surplus = sorted(names - state.keys())
        instead = f" but {_first_names(surplus)}" if surplus else ""
        raise Mismatch(f"it has no {_first_names(missing)}{instead}")
    if surplus := sorted(names - state.keys()):
        raise Mismatch(f"it has {_first_names(surplus)}, which this run does not train")
    for name, rows in state.items():
        saved = _saved_tensor(metadata, name)
        if saved.size[0] != rows.num_rows:
            raise Mismatch(f"{name} has {saved.size[0]} rows in it, but {rows.num_rows} in this run")
        for tensor in (part.tensor for part in rows.parts):
            size = rows.size(tensor)
            if saved.size[1:] != size[1:]:
                sizes = f"{_shape_text(saved.size[1:])} in it, but of {_shape_text(size[1:])} in this run"
                raise Mismatch(f"{name} has rows of {sizes}")
            if saved.properties.dtype != tensor.dtype and not rows.may_differ:
                raise Mismatch(f"{name} is {saved.properties.dtype} in it, but {tensor.dtype} in this run")


def _saved_tensor(metadata: Metadata, name: str) -> TensorStorageMetadata:
    saved = metadata.state_dict_metadata[name]
    assert isinstance(saved, TensorStorageMetadata)  # a save writes nothing else
    return saved


def _first_names(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _shape_text(shape: Sequence[int]) -> str:
    return " × ".join(map(str, shape)) or "one number"


def _offsets(part: Part) -> torch.Size:
    return torch.Size([part.first_row, part.first_column, *[0] * part.tensor.dim()][: part.tensor.dim()])


def _chunk(index: MetadataIndex, tensor: Tensor) -> ChunkStorageMetadata:
    assert index.offset is not None
    return ChunkStorageMetadata(offsets=index.offset, sizes=tensor.shape)


def _item(index: MetadataIndex, part: Part, size: torch.Size) -> WriteItem:
    data = TensorWriteData(
        chunk=_chunk(index, part.tensor),
        properties=TensorProperties(dtype=part.tensor.dtype),
        size=size,
    )
    return WriteItem(index=index, type=WriteItemType.SHARD, tensor_data=data)
