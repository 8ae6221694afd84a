"""Reads the table of a checkpoint without running code that somebody put into it, and opens the files for torch.

torch keeps the table of all chunks in a pickle, `.metadata`. A pickle can call any function, so this one may name only
the types of which such a table consists. torch reads the tensors themselves, with `weights_only=True`.
"""

import os
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import torch
from torch.distributed.checkpoint import filesystem, metadata

from trainer.scale.encryption.files import Files

_TABLE = ".metadata"
_ALLOWED_TYPES = {
    (kind.__module__, kind.__qualname__): kind
    for kind in (
        metadata.Metadata, metadata.StorageMeta, metadata.MetadataIndex, metadata.TensorStorageMetadata,
        metadata.BytesStorageMetadata, metadata.ChunkStorageMetadata, metadata.TensorProperties,
        metadata._MEM_FORMAT_ENCODING, filesystem._StorageInfo, torch.Size,
    )
}  # fmt: skip


class Streams(filesystem.FileSystem):  # type: ignore[misc]  # torch has no types
    """torch's file system, with streams that encrypt and decrypt if there is a key."""

    def __init__(self, files: Files) -> None:
        self._files = files

    @contextmanager
    def create_stream(self, path: str | os.PathLike[str], mode: str) -> Iterator[IO[bytes]]:
        """Open a file for writing (`wb`) or reading (`rb`)."""
        open_stream = self._files.create if mode == "wb" else self._files.open
        with open_stream(Path(path)) as stream:
            yield stream


def read_table(checkpoint: Path, files: Files) -> metadata.Metadata:
    """Return the table of all chunks. Raises pickle.UnpicklingError if the file holds something else."""
    with files.open(checkpoint / _TABLE) as file:
        table = _Unpickler(file).load()
    if not isinstance(table, metadata.Metadata):
        raise pickle.UnpicklingError(f"{_TABLE} holds no table of chunks")
    return table


class _Unpickler(pickle.Unpickler):
    """An unpickler that allows only what a table of chunks has."""

    def find_class(self, module: str, name: str) -> Any:
        """Return a type of which a table consists. Raises pickle.UnpicklingError for all others."""
        if (module, name) in _ALLOWED_TYPES:
            return _ALLOWED_TYPES[module, name]
        if module == "torch" and isinstance(value := getattr(torch, name, None), torch.dtype):
            return value
        if (module, name) == ("torch.serialization", "_get_layout"):
            return _layout
        if (module, name) in (("pathlib", "PosixPath"), ("pathlib", "PurePosixPath")):
            return _path
        if (module, name) == ("builtins", "getattr"):
            return _member
        raise pickle.UnpicklingError(f"{_TABLE} names {module}.{name}, which is not part of a table of chunks")


def _layout(name: str) -> torch.layout:
    if name != str(torch.strided):
        raise pickle.UnpicklingError(f"{_TABLE} asks for the layout {name}, which is not part of a table of chunks")
    return torch.strided


def _member(kind: Any, name: str) -> Any:
    """Return a member of the only enumeration in a table. Python 3.11.0 to 3.11.2 pickle it as a call of getattr."""
    if kind is not metadata._MEM_FORMAT_ENCODING or name not in kind.__members__:
        raise pickle.UnpicklingError(f"{_TABLE} asks for {name} of {kind}, which is not part of a table of chunks")
    return kind[name]


def _path(*parts: str) -> str:
    """Return a path as text: torch stores the folder of the save, which this trainer does not use."""
    return "/".join(parts)
