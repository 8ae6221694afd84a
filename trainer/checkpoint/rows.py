"""What is kept: tensors by name, each of so many rows, of which a rank holds none, some ranges or all.

torch.distributed.checkpoint keeps global tensors in chunks, whoever wrote them, and reads any part of one out of the
chunks that overlap with it: this is how a checkpoint of four ranks fits one, or another kind of sharding. What it
offers for saying who holds what is too narrow here: a DTensor is cut evenly over a mesh of ranks, a ShardedTensor is
made by a collective, needs the placement of all ranks and has each row once. So the two planners below say it
themselves; a planner is the place that it has for that.

Shapes: N rows of a tensor, n rows of a part of it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

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

CHUNK_BYTES = 16 << 20  # at most so much is read at once for whatever part of it is wanted, and copied for writing


@dataclass(frozen=True)
class Rows:
    """A tensor of `num_rows` rows, and where the rows lie that are here: `(first row, (n, …) view of them)`.

    Views of one big tensor will do: they are read and written in place. What several ranks hold is written once.
    """

    num_rows: int
    parts: Sequence[tuple[int, Tensor]] = ()


State = Mapping[str, Rows]  # by name; all ranks have the same names


class Refused(Exception):
    """The checkpoint is not of what is trained here; in all ranks' words the same."""


def whole(tensor: Tensor) -> Rows:
    """A tensor that is equal on every rank."""
    tensor = tensor if tensor.dim() else tensor.view(1)  # a number is a row
    return Rows(len(tensor), ((0, tensor),))


def chunks(state: State) -> dict[MetadataIndex, tuple[Tensor, int]]:
    """What lies here in chunks to write, each with the number of rows of the tensor that it is of."""
    return {
        MetadataIndex(name, _offsets(first_row, tensor)): (tensor, rows.num_rows)
        for name, rows in state.items()
        for first_row, tensor in _cut(rows.parts)
    }


def _cut(parts: Sequence[tuple[int, Tensor]]) -> Iterator[tuple[int, Tensor]]:
    for first_row, tensor in parts:
        if tensor.numel():
            num_rows = max(1, CHUNK_BYTES // tensor[0].nbytes)
            for start, chunk in zip(range(0, len(tensor), num_rows), tensor.split(num_rows), strict=True):
                yield first_row + start, chunk.detach()


class Keeping(DefaultSavePlanner):
    """Says what this rank could write; which rank writes what several hold, and the check that the tensors are whole,
    are those of the default planner."""

    def __init__(self, here: Mapping[MetadataIndex, tuple[Tensor, int]]) -> None:
        super().__init__(flatten_state_dict=False, flatten_sharded_tensors=False)
        self.here = here
        self.copies: dict[MetadataIndex, Tensor] = {}

    def create_local_plan(self) -> SavePlan:
        """A chunk an item."""
        return SavePlan([_item(index, *chunk) for index, chunk in self.here.items()])

    def copy(self, plan: SavePlan) -> None:
        """Take what this rank writes as it is now; from then on that is written.

        The copies stay for the next time: memory that is given back costs a page fault for every 4 KiB when it is
        wanted again.
        """
        for item in plan.items:
            tensor, _ = self.here[item.index]
            if item.index not in self.copies:
                self.copies[item.index] = torch.empty_like(tensor, device="cpu", pin_memory=tensor.is_cuda)
            self.copies[item.index].copy_(tensor)

    def lookup_object(self, index: MetadataIndex) -> Tensor:
        """A chunk to write: its copy where there is one."""
        copy = self.copies.get(index)
        return self.here[index][0] if copy is None else copy


class Fetching(DefaultLoadPlanner):
    """Says which rows this rank wants, and where they shall lie. Raises Refused where the checkpoint has others."""

    def __init__(self, state: State) -> None:
        super().__init__(flatten_state_dict=False, flatten_sharded_tensors=False)
        self.state = state
        self.parts = {
            MetadataIndex(name, _offsets(first_row, tensor)): tensor.detach()
            for name, rows in state.items()
            for first_row, tensor in rows.parts
            if tensor.numel()
        }

    def create_local_plan(self) -> LoadPlan:
        """The overlaps of what is wanted with the chunks that are there."""
        assert self.metadata is not None
        _check(self.state, self.metadata)
        wanted: dict[str, list[ChunkStorageMetadata]] = {}
        for index, tensor in self.parts.items():
            wanted.setdefault(index.fqn, []).append(_chunk(index, tensor))
        items: list[ReadItem] = []
        for name, here in wanted.items():
            items += create_read_items_for_chunk_list(name, _kept(self.metadata, name), here)
        return LoadPlan(items)

    def lookup_tensor(self, index: MetadataIndex) -> Tensor:
        """Where a part shall lie."""
        return self.parts[index]


def _check(state: State, metadata: Metadata) -> None:
    kept = metadata.state_dict_metadata
    if missing := sorted(state.keys() - kept.keys()):
        raise Refused(f"it has no {_some(missing)}{_instead(sorted(kept.keys() - state.keys()))}")
    if more := sorted(kept.keys() - state.keys()):
        raise Refused(f"it has {_some(more)}, which is not trained here")
    for name, rows in state.items():
        there = _kept(metadata, name)
        if there.size[0] != rows.num_rows:
            raise Refused(f"{name} has {there.size[0]} rows in it, and {rows.num_rows} here")
        for _, tensor in rows.parts:
            if there.size[1:] != tensor.shape[1:]:
                raise Refused(f"{name} has rows of {_by(there.size[1:])} in it, and of {_by(tensor.shape[1:])} here")
            if there.properties.dtype != tensor.dtype:
                raise Refused(f"{name} is {there.properties.dtype} in it, and {tensor.dtype} here")


def _kept(metadata: Metadata, name: str) -> TensorStorageMetadata:
    kept = metadata.state_dict_metadata[name]
    assert isinstance(kept, TensorStorageMetadata)  # nothing else is ever written
    return kept


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _instead(names: Sequence[str]) -> str:
    return f" but {_some(names)}" if names else ""


def _by(shape: Sequence[int]) -> str:
    return " × ".join(map(str, shape)) or "one number"


def _offsets(first_row: int, tensor: Tensor) -> torch.Size:
    return torch.Size([first_row, *[0] * (tensor.dim() - 1)])


def _chunk(index: MetadataIndex, tensor: Tensor) -> ChunkStorageMetadata:
    assert index.offset is not None
    return ChunkStorageMetadata(offsets=index.offset, sizes=tensor.shape)


def _item(index: MetadataIndex, tensor: Tensor, num_rows: int) -> WriteItem:
    data = TensorWriteData(
        chunk=_chunk(index, tensor),
        properties=TensorProperties.create_from_tensor(tensor),
        size=torch.Size([num_rows, *tensor.shape[1:]]),
    )
    return WriteItem(index=index, type=WriteItemType.SHARD, tensor_data=data)
