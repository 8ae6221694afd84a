"""Tests with real ranks whose disk of rows fails: all of them end, with one line that names the folder."""

from pathlib import Path

import pytest

from tests.trainer.conftest import TRAINER

pytestmark = pytest.mark.e2e


def test_full_disk_ends_all_ranks_before_the_first_step(start, small_disk: Path) -> None:
    keys = ("embedding.memory=1500000", f"embedding.tier.folder={small_disk}", "sharding.kind=row_wise")
    ended = start(2, TRAINER, "--steps", "20", *(word for key in keys for word in ("--set", key)))
    assert ended.returncode != 0
    assert f"cannot allocate 0.00354 GB of rows in {small_disk}: No space left on device. Free some" in ended.stderr
    assert "step 1 " not in ended.stdout
    assert list(small_disk.iterdir()) == []
