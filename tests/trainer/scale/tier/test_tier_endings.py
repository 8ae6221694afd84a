"""Tests with real ranks whose disk of rows fails: all of them end, with one line that names the folder."""

from pathlib import Path

import pytest

pytestmark = pytest.mark.e2e

KEYS = ("embedding.memory=1500000", "sharding.kind=row_wise", "train.steps=20", "train.global_batch=64")


def test_full_disk_ends_all_ranks_before_the_first_step(launch, small_disk: Path) -> None:
    keys = (*KEYS, f"embedding.tier.folder={small_disk}")
    ended = launch(2, "-m", "trainer", *(word for key in keys for word in ("--set", key)))
    assert ended.returncode != 0
    assert f"cannot allocate 0.00354 GB of rows in {small_disk}: No space left on device. Free some" in ended.stderr
    assert "step 1 " not in ended.stdout
    assert list(small_disk.iterdir()) == []
