"""An encrypted file: a header, and chunks of 1 MiB that are encrypted and authenticated by AES-256-GCM.

    header    "ZMONENC1", the bytes of a chunk, the id of the data set, the key of the file as the master key wraps it
    chunks    each with its tag; the last one is shorter or full, and there is at least one

The nonce of a chunk is its number: a key belongs to one file, and a chunk is written once. The tag also authenticates
the header without the wrapped key, the name of the file, the number of the chunk, and whether it is the last one. So a
reader detects a chunk that was changed, moved, removed or taken from another file, and a file that was cut. The number
of chunks is not in the header, because the writer of a stream does not know it before the end.
"""

from __future__ import annotations

import io
import os
import secrets
import struct
from dataclasses import dataclass
from pathlib import Path

from trainer.scale.encryption.key import WRAPPED_BYTES, KeyMismatch, MasterKey

MAGIC = b"ZMONENC1"
CHUNK_BYTES = 1 << 20
DATA_SET_BYTES = 16
_TAG_BYTES = 16
_PREFIX = struct.Struct(f"<8sI{DATA_SET_BYTES}s")  # of the header: magic, bytes of a chunk, data set
HEADER_BYTES = _PREFIX.size + WRAPPED_BYTES
_MAX_CHUNK_BYTES = 1 << 30


class DamagedFile(ValueError):
    """An encrypted file cannot be decrypted. The message names the file and the chunk."""


def new_data_set() -> bytes:
    """Return the id of a new data set."""
    return secrets.token_bytes(DATA_SET_BYTES)


@dataclass(frozen=True)
class _Header:
    """The header of an encrypted file."""

    chunk_bytes: int
    data_set: bytes
    wrapped_key: bytes

    def prefix(self) -> bytes:
        return _PREFIX.pack(MAGIC, self.chunk_bytes, self.data_set)

    @classmethod
    def read(cls, path: Path, content: bytes) -> _Header:
        """Read the header from the first bytes of a file. Raises DamagedFile."""
        if len(content) < HEADER_BYTES or not content.startswith(MAGIC):
            raise DamagedFile(f"{path} is not an encrypted file: its header is missing")
        _, chunk_bytes, data_set = _PREFIX.unpack_from(content)
        if not 0 < chunk_bytes <= _MAX_CHUNK_BYTES:
            raise DamagedFile(f"the header of {path} is damaged: it has chunks of {chunk_bytes:,} bytes")
        return cls(chunk_bytes, data_set, content[_PREFIX.size : HEADER_BYTES])


def _associated_data(prefix: bytes, name: str, chunk: int, is_last: bool) -> bytes:
    """Return what the tag of a chunk authenticates in addition to the chunk."""
    return prefix + struct.pack("<QB", chunk, is_last) + name.encode()


def _nonce(chunk: int) -> bytes:
    return chunk.to_bytes(12, "little")


class EncryptedWriter(io.RawIOBase):
    """Writes a file from the first byte to the last; the file is complete after `close`."""

    def __init__(self, path: Path, key: MasterKey, data_set: bytes, chunk_bytes: int = CHUNK_BYTES) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        file_key, wrapped_key = key.new_file_key()
        header = _Header(chunk_bytes, data_set, wrapped_key)
        self._prefix = header.prefix()
        self._name = path.name.removesuffix(".tmp")  # torch renames a file when it is complete
        self._chunk_bytes = chunk_bytes
        self._cipher = AESGCM(file_key)
        self._chunk = 0  # the number of the next chunk
        self._size = 0  # plain bytes so far
        self._pending = bytearray()  # plain bytes that are not yet in a chunk
        self._file = path.open("wb")
        self._file.write(self._prefix + wrapped_key)

    def writable(self) -> bool:
        return True

    def write(self, data: bytes | bytearray | memoryview) -> int:  # type: ignore[override]
        """Encrypt whole chunks; the last one waits for `close`, since it may be the last of the file."""
        view = memoryview(data).cast("B")
        self._pending += view
        self._size += len(view)
        while len(self._pending) > self._chunk_bytes:
            self._write_chunk(bytes(self._pending[: self._chunk_bytes]), is_last=False)
            del self._pending[: self._chunk_bytes]
        return len(view)

    def tell(self) -> int:
        """Return the number of plain bytes so far."""
        return self._size

    def fileno(self) -> int:
        """Return the descriptor, for fsync."""
        return self._file.fileno()

    def close(self) -> None:
        """Write the last chunk, flush the file to the disk and close it."""
        if not self.closed:
            try:
                self._write_chunk(bytes(self._pending), is_last=True)
                self._file.flush()
                os.fsync(self._file.fileno())
            finally:
                self._file.close()
                super().close()

    def _write_chunk(self, plain: bytes, is_last: bool) -> None:
        associated = _associated_data(self._prefix, self._name, self._chunk, is_last)
        self._file.write(self._cipher.encrypt(_nonce(self._chunk), plain, associated))
        self._chunk += 1


class EncryptedReader(io.RawIOBase):
    """Reads a file at any place, one chunk after the other. The last chunk that was read stays in memory."""

    def __init__(self, path: Path, key: MasterKey, data_set: bytes | None = None) -> None:
        """`data_set` is that of the file; None: any. Raises DamagedFile, OSError."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._path, self._position = path, 0
        self._file = path.open("rb", buffering=0)
        try:
            header = _Header.read(path, self._file.read(HEADER_BYTES) or b"")
            if data_set is not None and header.data_set != data_set:
                raise DamagedFile(f"chunk 0 of {path} belongs to another data set")
            try:
                self._cipher = AESGCM(key.unwrap(header.wrapped_key))
            except KeyMismatch as error:
                raise DamagedFile(f"cannot decrypt chunk 0 of {path}: {error}") from None
            self.data_set, self._prefix, self._chunk_bytes = header.data_set, header.prefix(), header.chunk_bytes
            stored_bytes = os.fstat(self._file.fileno()).st_size - HEADER_BYTES
            self._num_chunks = -(-stored_bytes // (self._chunk_bytes + _TAG_BYTES))
            self._size = stored_bytes - self._num_chunks * _TAG_BYTES  # of the plain bytes
            if self._num_chunks < 1 or self._size < 0:
                raise DamagedFile(f"{path} is cut: chunk {max(0, self._num_chunks - 1)} is not whole")
            self._chunk, self._plain = -1, b""  # the number of the chunk in memory (-1: none), and its plain bytes
        except BaseException:
            self._file.close()
            raise

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Set the position among the plain bytes."""
        begin = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, begin + offset)
        return self._position

    def tell(self) -> int:
        """Return the position among the plain bytes."""
        return self._position

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Fill the buffer, or read up to the end. Raises DamagedFile."""
        view, filled = memoryview(buffer).cast("B"), 0
        while filled < len(view):
            chunk, first = divmod(self._position, self._chunk_bytes)
            if chunk < self._num_chunks and self._chunk != chunk:
                self._load(chunk)
            if self._position >= self._size:
                break
            part = self._plain[first : first + len(view) - filled]
            view[filled : filled + len(part)] = part
            self._position, filled = self._position + len(part), filled + len(part)
        return filled

    def close(self) -> None:
        """Close the file, and forget the chunk."""
        self._plain = b""
        self._file.close()
        super().close()

    def _load(self, chunk: int) -> None:
        from cryptography.exceptions import InvalidTag

        stored_bytes = self._chunk_bytes + _TAG_BYTES
        stored = os.pread(self._file.fileno(), stored_bytes, HEADER_BYTES + chunk * stored_bytes)
        associated = _associated_data(self._prefix, self._path.name, chunk, chunk == self._num_chunks - 1)
        try:
            self._plain, self._chunk = self._cipher.decrypt(_nonce(chunk), stored, associated), chunk
        except InvalidTag:
            where = f"chunk {chunk} of {self._num_chunks} of {self._path}"
            raise DamagedFile(f"{where} is not as it was written: changed, moved, or the file was cut") from None


def rewrap(path: Path, old: MasterKey, new: MasterKey) -> int:
    """Let another master key wrap the key of a file. Return the bytes written. Raises DamagedFile, OSError."""
    with path.open("r+b", buffering=0) as file:
        header = _Header.read(path, file.read(HEADER_BYTES) or b"")
        try:
            wrapped_key = new.wrap(old.unwrap(header.wrapped_key))
        except KeyMismatch as error:
            raise DamagedFile(f"cannot decrypt the header of {path}: {error}") from None
        os.pwrite(file.fileno(), wrapped_key, _PREFIX.size)
        os.fsync(file.fileno())
    return len(wrapped_key)
