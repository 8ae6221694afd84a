"""The files of a checkpoint as torch opens them: plain or encrypted."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from torch.distributed.checkpoint.filesystem import FileSystem

from trainer.scale.encryption.files import Files


class Streams(FileSystem):  # type: ignore[misc]  # torch has no types
    """torch's file system, with other streams."""

    def __init__(self, files: Files) -> None:
        self._files = files

    @contextmanager
    def create_stream(self, path: str | os.PathLike[str], mode: str) -> Iterator[IO[bytes]]:
        """Open a file for writing (`wb`) or reading (`rb`)."""
        with (self._files.create if mode == "wb" else self._files.open)(Path(path)) as stream:
            yield stream
