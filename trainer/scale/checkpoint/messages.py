"""The messages of the ranks about a checkpoint, as plain data.

Any process that reaches the job's store can write to it, so a message is decoded as data of a known form. torch's own
types for plans and results travel as pickles, and a pickle can run code.
"""

from collections.abc import Sequence

import msgspec
import torch
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, MetadataIndex, TensorProperties
from torch.distributed.checkpoint.planner import SavePlan, TensorWriteData, WriteItem, WriteItemType
from torch.distributed.checkpoint.storage import WriteResult


class PlannedChunk(msgspec.Struct, frozen=True, array_like=True):
    """One chunk of a tensor that a rank writes."""

    name: str
    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    tensor_sizes: tuple[int, ...]  # of the whole tensor
    dtype: str  # such as float32
    hint: int | None  # torch's index of the chunk among all chunks of the tensor


class WrittenChunk(msgspec.Struct, frozen=True, array_like=True):
    """One chunk that a rank has written, and its place in a file."""

    name: str
    offsets: tuple[int, ...]
    hint: int | None
    num_bytes: int
    file: str
    start: int
    length: int


def planned_chunks(plan: SavePlan) -> list[PlannedChunk]:
    """Return the chunks of a plan."""
    return [_planned_chunk(item) for item in plan.items]


def save_plan(chunks: Sequence[PlannedChunk]) -> SavePlan:
    """Return the plan with these chunks."""
    return SavePlan([_item(chunk) for chunk in chunks])


def written_chunks(results: Sequence[WriteResult]) -> list[WrittenChunk]:
    """Return the chunks that torch's results name."""
    return [
        WrittenChunk(
            name=result.index.fqn,
            offsets=tuple(result.index.offset or ()),
            hint=result.index.index,
            num_bytes=result.size_in_bytes,
            file=result.storage_data.relative_path,
            start=result.storage_data.offset,
            length=result.storage_data.length,
        )
        for result in results
    ]


def write_results(chunks: Sequence[WrittenChunk]) -> list[WriteResult]:
    """Return torch's results for these chunks."""
    return [
        WriteResult(
            MetadataIndex(chunk.name, torch.Size(chunk.offsets), chunk.hint),
            chunk.num_bytes,
            _StorageInfo(chunk.file, chunk.start, chunk.length),
        )
        for chunk in chunks
    ]


def _planned_chunk(item: WriteItem) -> PlannedChunk:
    data = item.tensor_data
    assert data is not None  # the planner plans tensors only
    return PlannedChunk(
        name=item.index.fqn,
        offsets=tuple(data.chunk.offsets),
        sizes=tuple(data.chunk.sizes),
        tensor_sizes=tuple(data.size),
        dtype=str(data.properties.dtype).removeprefix("torch."),
        hint=item.index.index,
    )


def _item(chunk: PlannedChunk) -> WriteItem:
    dtype = getattr(torch, chunk.dtype, None)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"{chunk.dtype[:40]!r} is not a dtype")
    offsets = torch.Size(chunk.offsets)
    data = TensorWriteData(
        chunk=ChunkStorageMetadata(offsets=offsets, sizes=torch.Size(chunk.sizes)),
        properties=TensorProperties(dtype=dtype),
        size=torch.Size(chunk.tensor_sizes),
    )
    index = MetadataIndex(chunk.name, offsets, chunk.hint)
    return WriteItem(index=index, type=WriteItemType.SHARD, tensor_data=data)
