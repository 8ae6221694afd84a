"""Tests of encrypted files: any part of what was written can be read, and a file that was changed is an error."""

import io
import random
import secrets
from itertools import pairwise
from pathlib import Path

import pytest

from trainer.scale.encryption.file import HEADER_BYTES, DamagedFile, EncryptedReader, EncryptedWriter, new_data_set
from trainer.scale.encryption.key import MasterKey

CHUNK, TAG = 100, 16  # bytes
CHUNK_PLACE, DATA_SET_PLACE = slice(8, 12), slice(12, 28)  # of the size of a chunk, and of the data set, in the header
KEY, DATA_SET = MasterKey(secrets.token_bytes(32)), new_data_set()


def write(path: Path, plain: bytes, data_set: bytes = DATA_SET) -> Path:
    """Write an encrypted file, and return its path."""
    with EncryptedWriter(path, KEY, data_set, CHUNK) as file:
        file.write(plain)
    return path


def read(path: Path, key: MasterKey = KEY, data_set: bytes | None = DATA_SET) -> bytes:
    """Return the plain bytes of an encrypted file."""
    with EncryptedReader(path, key, data_set) as file:
        return file.read()


@pytest.mark.parametrize("size", [0, 1, 99, 100, 101, 200, 1050])
def test_what_is_written_is_read(tmp_path, size: int) -> None:
    plain = random.Random(size).randbytes(size)
    path = tmp_path / "rows"
    with EncryptedWriter(path, KEY, DATA_SET, CHUNK) as file:
        for first in range(0, size, 7):
            file.write(plain[first : first + 7])
        assert file.tell() == size
    assert read(path) == plain
    num_chunks = max(1, -(-size // CHUNK))
    assert path.stat().st_size == HEADER_BYTES + size + num_chunks * TAG
    if size >= 20:  # fewer bytes may occur by chance
        assert plain not in path.read_bytes()


def test_any_part_is_read(tmp_path) -> None:
    plain = random.Random(1).randbytes(1050)
    path = write(tmp_path / "rows", plain)
    generator = random.Random(2)
    with EncryptedReader(path, KEY) as file:
        for _ in range(200):
            first, size = generator.randrange(1100), generator.randrange(400)
            file.seek(first)
            assert file.read(size) == plain[first : first + size]
        assert file.seek(-5, io.SEEK_END) == 1045
        assert file.read() == plain[-5:]


def test_equal_files_have_different_bytes(tmp_path) -> None:
    first, second = (write(tmp_path / name, b"x" * 300).read_bytes() for name in ("a", "b"))
    assert first[HEADER_BYTES:] != second[HEADER_BYTES:]


def with_larger_chunks(header: bytes) -> bytes:
    """Return a header that says that chunks are twice as large."""
    return header[: CHUNK_PLACE.start] + (2 * CHUNK).to_bytes(4, "little") + header[CHUNK_PLACE.stop :]


DAMAGE = {  # the damaged file, given its header and its five chunks
    "flipped bit": lambda header, a, b, c, d, e: [header, a, b, bytes([c[0] ^ 1]) + c[1:], d, e],
    "swapped chunks": lambda header, a, b, c, d, e: [header, a, c, b, d, e],
    "repeated chunk": lambda header, a, b, c, d, e: [header, a, b, b, d, e],
    "missing chunk": lambda header, a, b, c, d, e: [header, a, b, d, e],
    "cut after a chunk": lambda header, a, b, c, d, e: [header, a, b, c],
    "cut within a chunk": lambda header, a, b, c, d, e: [header, a, b, c[:-30]],
    "further chunk": lambda header, a, b, c, d, e: [header, a, b, c, d, e, a],
    "other size of chunks": lambda header, *chunks: [with_larger_chunks(header), *chunks],
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_damage_is_found_in_one_line_that_names_file_and_chunk(tmp_path, damage) -> None:
    path = write(tmp_path / "rows", random.Random(1).randbytes(450))
    content = path.read_bytes()
    starts = [HEADER_BYTES + chunk * (CHUNK + TAG) for chunk in range(5)]
    path.write_bytes(b"".join(damage(*(content[first:end] for first, end in pairwise([0, *starts, len(content)])))))
    with pytest.raises(DamagedFile, match=r"^chunk \d of \d of .*/rows is not as it was written: [^\n]*$"):
        read(path)


@pytest.mark.parametrize("size", [0, 10, HEADER_BYTES - 1, HEADER_BYTES])
def test_file_without_a_whole_chunk_is_refused(tmp_path, size: int) -> None:
    path = write(tmp_path / "rows", b"x" * 450)
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(DamagedFile, match=r"is not an encrypted file|is cut: chunk 0 is not whole"):
        read(path)


def test_other_key_other_data_set_and_other_name_are_refused(tmp_path) -> None:
    path = write(tmp_path / "rows", b"x" * 450)
    with pytest.raises(DamagedFile, match=r"^cannot decrypt chunk 0 of .*/rows: the key is another one, or"):
        read(path, MasterKey(secrets.token_bytes(32)))
    with pytest.raises(DamagedFile, match=r"^chunk 0 of .*/rows belongs to another data set$"):
        read(path, data_set=new_data_set())
    with pytest.raises(DamagedFile, match=r"^chunk 0 of 5 of .*/others is not as it was written"):
        read(path.rename(tmp_path / "others"))
    other = new_data_set()
    content = bytearray((tmp_path / "others").read_bytes())
    content[DATA_SET_PLACE] = other  # the header says that the file belongs to this data set
    path.write_bytes(content)
    with pytest.raises(DamagedFile, match=r"^chunk 0 of 5 of .*/rows is not as it was written"):
        read(path, data_set=other)
