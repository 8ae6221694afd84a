"""Tests of files that are not a valid box of this version. The reader raises an error with a message."""

import os
import struct

import pytest

from tests.boxes import PARTS, read_part
from zmon.box import layout
from zmon.box.identity import FIELDS, LABELS_BYTES, packed_identity
from zmon.box.reader import BoxReader
from zmon.box.versions import CURRENT
from zmon.errors import BoxCorrupt, BoxVersion

VERSION_OFFSET = len(layout.MAGIC)
CAPACITY_OFFSET = VERSION_OFFSET + 4  # of the number of boundaries in the ring


def refusal_message(path, error):
    """Return the message with which a reader refuses a file."""
    with pytest.raises(error) as caught:
        BoxReader(path)
    line = str(caught.value)
    assert str(path) in line
    assert "\n" not in line
    return line


@pytest.mark.parametrize("content", [b"", b"ZMON", b"\x7fELF" + b"\0" * 4096, b"loss=0.5\n" * 1000])
def test_file_that_is_not_a_box_is_refused_with_its_path(tmp_path, content):
    path = tmp_path / "rank-0.box"
    path.write_bytes(content)
    assert "not a black box" in refusal_message(path, BoxCorrupt)


def test_directory_or_pipe_with_the_name_of_a_box_is_an_error(tmp_path):
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in ("directory", "pipe"):
        with pytest.raises(OSError, match=r"directory|seek"):
            BoxReader(tmp_path / name)


def test_box_of_another_version_is_refused_with_both_versions(box):
    box.overwrite(VERSION_OFFSET, struct.pack("<I", CURRENT.version + 1))
    line = refusal_message(box.path, BoxVersion)
    assert f"version {CURRENT.version + 1}" in line
    assert f"reads {CURRENT.version}" in line


def test_box_with_other_sizes_is_refused(box):
    box.overwrite(CAPACITY_OFFSET, struct.pack("<I", 1_000_000_000))
    assert "sizes" in refusal_message(box.path, BoxCorrupt)


@pytest.mark.parametrize("size", [layout.PREFIX.size, CURRENT.ring, CURRENT.file_size - 1])
def test_truncated_box_is_refused(box, size):
    with box.path.open("r+b") as file:
        file.truncate(size)
    assert "truncated" in refusal_message(box.path, BoxCorrupt)


@pytest.mark.parametrize("part", PARTS)
def test_box_truncated_under_an_open_reader_is_corrupt(box, reader, part):
    with box.path.open("r+b") as file:
        file.truncate(100)
    with pytest.raises(BoxCorrupt) as caught:
        getattr(reader, part)()
    assert "\n" not in str(caught.value)


def test_link_to_a_box_is_not_followed(box, tmp_path):
    link = tmp_path / "rank-1.box"
    link.symlink_to(box.path)
    with pytest.raises(OSError, match=r"rank-1\.box"):
        BoxReader(link)


@pytest.mark.parametrize(
    "labels", [b"[" * (LABELS_BYTES - 1), b"[]", b'{"a": 1}', b"{", b"\xff" * LABELS_BYTES], ids=repr
)
def test_invalid_labels_are_corrupt(box, labels):
    values = packed_identity(box.who)
    values[list(FIELDS).index("labels")] = labels  # values that a rank never writes
    box.writer._identity(*values)
    with pytest.raises(BoxCorrupt, match="labels"):
        read_part(box, "identity")
