"""Tests of writing. Neither a crash nor a full disk leaves half a file or half a line."""

import errno
import os

import pytest

from zmon.files import writing
from zmon.files.writing import append_line, replace_file


@pytest.fixture
def full_disk(monkeypatch):
    """Make the disk full after this number of bytes."""

    def fill(num_bytes):
        left = [num_bytes]
        write = os.write

        def limited(fd, data):
            if not left[0]:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            written = write(fd, data[: left[0]])
            left[0] -= written
            return written

        monkeypatch.setattr(writing.os, "write", limited)

    return fill


def test_file_is_replaced_whole_and_private(tmp_path):
    path = tmp_path / "folder/a.json"
    assert replace_file(path, [b"one"]) == 3
    assert replace_file(path, [b"two ", b"parts"], sync=False) == 9
    assert path.read_bytes() == b"two parts"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert [*path.parent.iterdir()] == [path]


def test_full_disk_leaves_the_old_file_and_nothing_else(tmp_path, full_disk):
    path = tmp_path / "a.json"
    replace_file(path, [b"old"])
    full_disk(4)
    with pytest.raises(OSError, match="space"):
        replace_file(path, [b"a longer text"])
    assert path.read_bytes() == b"old"
    assert [*tmp_path.iterdir()] == [path]


def test_leftover_of_a_killed_process_is_replaced(tmp_path):
    (tmp_path / ".a.json.partial").write_bytes(b"half")
    replace_file(tmp_path / "a.json", [b"whole"])
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_link_in_place_of_the_new_file_is_not_followed(tmp_path):
    (tmp_path / "other").write_bytes(b"other")
    (tmp_path / ".a.json.partial").symlink_to(tmp_path / "other")
    replace_file(tmp_path / "a.json", [b"whole"])
    assert (tmp_path / "other").read_bytes() == b"other"


def test_full_disk_leaves_no_half_line(tmp_path, full_disk):
    path = tmp_path / "lines"
    assert append_line(path, b"one\n") == 4
    full_disk(2)
    with pytest.raises(OSError, match="space"):
        append_line(path, b"two\n")
    assert path.read_bytes() == b"one\n"


def test_line_after_half_a_line_begins_a_line_of_its_own(tmp_path):
    path = tmp_path / "lines"
    path.write_bytes(b"one\ntw")
    assert append_line(path, b"three\n") == path.stat().st_size
    assert path.read_bytes() == b"one\ntw\nthree\n"
