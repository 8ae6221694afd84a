"""Tests of the lock. Of two hubs on one data directory, the second ends with one clear line."""

import subprocess
import sys

import pytest
from aiohttp.test_utils import unused_port

from tests.boxes import eventually
from zmon.errors import UsageError
from zmon.files.lock import lock_directory


def test_second_holder_is_refused_until_the_first_ends(tmp_path):
    holder = subprocess.Popen(
        [sys.executable, "-c", "import sys, pathlib; from zmon.files.lock import lock_directory; "
         "lock_directory(pathlib.Path(sys.argv[1]), 'lock', '', ''); print('held', flush=True); input()",
         str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert holder.stdout.readline() == b"held\n"
    with pytest.raises(UsageError, match=r"is in use: a hub runs\. End it"):
        lock_directory(tmp_path, "lock", "a hub runs", "End it")
    holder.kill()
    holder.wait()
    lock_directory(tmp_path, "lock", "", "")


def test_second_hub_on_a_data_directory_ends_with_one_line(tmp_path):
    def hub():
        command = [sys.executable, "-m", "zmon", "hub", "--data-dir", str(tmp_path), "--port", str(unused_port())]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    first = hub()
    try:
        assert "listens" in first.stdout.readline()
        second = hub()
        _, errors = second.communicate(timeout=30)
        assert second.returncode == 2
        assert len(errors.splitlines()) == 1
        assert "another zmon hub is running" in errors
        assert str(tmp_path) in errors
        first.kill()
        first.wait()
        third = hub()
        assert "listens" in third.stdout.readline()
        third.terminate()
        assert eventually(lambda: third.poll() is not None, 20)
    finally:
        first.kill()
