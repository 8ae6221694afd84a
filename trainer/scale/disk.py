"""Flushes of files and folders to the disk, so that they survive a crash of the process or a loss of power."""

import os
from pathlib import Path
from typing import IO


def sync_file(file: IO[bytes] | IO[str]) -> None:
    """Flush an open file to the disk. Raises OSError."""
    file.flush()
    os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Flush the file names of a folder to the disk, after a file was created or renamed. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
