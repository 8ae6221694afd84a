"""Tests with real ranks whose disk of rows fails: all of them end, with one line that names the folder."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.e2e

KEYS = ("embedding.memory=1500000", "sharding.kind=row_wise", "train.steps=20", "train.global_batch=64")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of 1 MB for the rows."""
    if os.geteuid():
        pytest.skip("only root may mount")
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], check=True)
    yield disk
    subprocess.run(["umount", disk], check=True)


def test_full_disk_ends_all_ranks_before_the_first_step(launch, small_disk: Path) -> None:
    keys = (*KEYS, f"embedding.tier.folder={small_disk}")
    ended = launch(2, "-m", "trainer", *(word for key in keys for word in ("--set", key)))
    assert ended.returncode != 0
    assert f"cannot allocate 0.00354 GB of rows in {small_disk}: No space left on device. Free some" in ended.stderr
    assert "step 1 " not in ended.stdout
    assert list(small_disk.iterdir()) == []
