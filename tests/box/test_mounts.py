"""Tests of the type of the file system at a path, by the table of mounts."""

import subprocess
from pathlib import Path

import pytest

from zmon.box.mounts import file_system, file_system_without_access


def test_file_system_of_shared_memory_is_tmpfs():
    stat = subprocess.run(["stat", "-f", "-c", "%T", "/dev/shm"], capture_output=True, text=True, check=True)
    if stat.stdout != "tmpfs\n":
        pytest.skip("/dev/shm is not tmpfs")
    assert file_system(Path("/dev/shm")) == "tmpfs"


def test_last_mount_on_a_point_hides_the_others(tmp_path):
    lines = ("0:6 / / rw - ext4 none rw", "0:7 / /data rw - nfs4 server:/x rw", "0:8 / /data rw - tmpfs none rw")
    table = tmp_path / "mounts"
    table.write_text("".join(f"21 20 {line}\n" for line in lines))
    assert file_system_without_access(Path("/data/boxes"), table) == "tmpfs"
    assert file_system_without_access(Path("/database"), table) == "ext4"
