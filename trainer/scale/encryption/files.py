"""The files of a data set: plain, or encrypted under one key and with the id of the data set."""

from __future__ import annotations

from functools import cache
from io import SEEK_END
from pathlib import Path
from threading import Lock
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from trainer.scale.encryption.file import MAGIC, DamagedFile, EncryptedReader, EncryptedWriter, new_data_set
from trainer.scale.encryption.key import MasterKey


class PlainFiles:
    """Files that are not encrypted. Rows are mapped into memory."""

    def create(self, path: Path) -> IO[bytes]:
        """Open a new file for writing."""
        return path.open("wb")

    def open(self, path: Path) -> IO[bytes]:
        """Open a file for reading. Raises OSError, and DamagedFile if it is encrypted."""
        file = path.open("rb")
        if file.peek(len(MAGIC)).startswith(MAGIC):
            file.close()
            raise DamagedFile(f"{path} is encrypted, and there is no key for it")
        return file

    def size(self, path: Path) -> int:
        """Return the number of bytes. Raises OSError."""
        return path.stat().st_size

    def rows(self, path: Path, row: np.dtype[Any], first: int, num_rows: int) -> NDArray[Any]:
        """Map some of the rows of which a file consists; they must exist. Raises OSError, ValueError."""
        return np.memmap(path, row, "r", offset=first * row.itemsize, shape=(num_rows,))


class EncryptedFiles:
    """The files of one data set under a master key."""

    def __init__(self, key: MasterKey, data_set: bytes | None = None) -> None:
        """`data_set` is an id; None: that of the first file that is read, or a new one if files are written."""
        self._key, self.data_set = key, data_set
        self._path: Path | None = None  # of the file whose rows were read last; it stays open
        self._reader: EncryptedReader | None = None
        self._reads_rows = Lock()  # the loader reads in a thread of its own while an evaluation reads held-out rows

    def create(self, path: Path) -> IO[bytes]:
        """Open a new file for writing."""
        self.data_set = self.data_set or new_data_set()
        return cast(IO[bytes], EncryptedWriter(path, self._key, self.data_set))

    def open(self, path: Path) -> IO[bytes]:
        """Open a file for reading. Raises OSError, DamagedFile."""
        return cast(IO[bytes], self._open(path))

    def size(self, path: Path) -> int:
        """Return the number of plain bytes, without decrypting them. Raises OSError, DamagedFile."""
        with self._open(path) as reader:
            return reader.seek(0, SEEK_END)

    def rows(self, path: Path, row: np.dtype[Any], first: int, num_rows: int) -> NDArray[Any]:
        """Decrypt some of the rows of which a file consists; they must exist. Raises OSError, DamagedFile."""
        rows = np.empty(num_rows, row)
        with self._reads_rows:
            if self._path != path or self._reader is None:
                self.close()
                self._path, self._reader = path, self._open(path)
            self._reader.seek(first * row.itemsize)
            num_bytes = self._reader.readinto(rows.view(np.uint8).data)
        if num_bytes < rows.nbytes:
            raise DamagedFile(f"{path} is cut: it ends before row {first + num_rows:,}")
        return rows

    def close(self) -> None:
        """Close the file whose rows were read last."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _open(self, path: Path) -> EncryptedReader:
        reader = EncryptedReader(path, self._key, self.data_set)
        self.data_set = reader.data_set
        return reader


Files = PlainFiles | EncryptedFiles


@cache  # a variable has its key only once
def _key(source: str) -> MasterKey:
    return MasterKey.read(source)


def files_under(source: str, data_set: bytes | None = None) -> Files:
    """Return encrypted files, whose key `source` names (key.py), or plain ones if it is empty. Raises ConfigError."""
    return EncryptedFiles(_key(source), data_set) if source else PlainFiles()
