"""Tests of files that outlive a daemon.

No name leads out of a folder. A second hub on a data directory ends with one clear line. A crash or a full disk leaves
neither half a file nor half a line.
"""

import errno
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from aiohttp.test_utils import unused_port

from zmon.errors import UsageError
from zmon.steplog import files
from zmon.steplog.files import append_line, child_path, lock_directory, replace_file

FOLDER = Path("/data/accounts")


@pytest.fixture
def full_disk(monkeypatch):
    """Return a function that makes the disk full after a number of bytes."""

    def fill(num_bytes):
        left = num_bytes
        write = os.write

        def limited(fd, data):
            nonlocal left
            if not left:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            written = write(fd, data[:left])
            left -= written
            return written

        monkeypatch.setattr(files.os, "write", limited)

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


def test_path_of_a_name_is_in_the_folder():
    assert child_path(FOLDER, "job-1.x", ".json") == FOLDER / "job-1.x.json"


@pytest.mark.parametrize(
    "name", ["", ".", "..", "/etc/passwd", "../x", "a/b", "a\0b", "a\nb", "a\x1b", "x" * 300, "/../../../tmp/x"]
)
def test_name_that_leads_elsewhere_is_refused(name):
    with pytest.raises(UsageError, match="cannot be the name of a file"):
        child_path(FOLDER, name)


def test_second_holder_is_refused_until_the_first_ends(tmp_path):
    holder = subprocess.Popen(
        [sys.executable, "-c", "import sys, pathlib; from zmon.steplog.files import lock_directory; "
         "lock_directory(pathlib.Path(sys.argv[1]), 'lock', '', ''); print('held', flush=True); input()",
         str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert holder.stdout.readline() == b"held\n"
    with pytest.raises(UsageError, match=r"is in use: a hub runs\. End it"):
        lock_directory(tmp_path, "lock", "a hub runs", "End it")
    holder.kill()
    holder.wait()
    lock_directory(tmp_path, "lock", "", "")


@pytest.fixture
def start_hub(tmp_path):
    """Return a function that starts a hub on the same data directory; the hubs end after the test."""
    with ExitStack() as hubs:

        def start():
            command = [sys.executable, "-m", "zmon", "hub", "--data-dir", str(tmp_path), "--port", str(unused_port())]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            hubs.enter_context(process)
            hubs.callback(process.kill)
            return process

        yield start


def test_second_hub_on_a_data_directory_ends_with_one_line_until_the_first_is_killed(start_hub, tmp_path):
    first = start_hub()
    assert "listens" in first.stdout.readline()
    second = start_hub()
    _, errors = second.communicate(timeout=30)
    assert (second.returncode, len(errors.splitlines())) == (2, 1)
    assert "another zmon hub is running" in errors
    assert str(tmp_path) in errors
    first.kill()
    first.wait()
    assert "listens" in start_hub().stdout.readline()
