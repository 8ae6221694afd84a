"""What has reached the disk, not the kernel alone: whatever is killed or loses its power after that, it is there."""

import os
from pathlib import Path
from typing import IO


def keep(file: IO[bytes] | IO[str]) -> None:
    """What was written to an open file. Raises OSError."""
    file.flush()
    os.fsync(file.fileno())


def keep_names(folder: Path) -> None:
    """Which files a folder has: a new name, or one that was changed. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
