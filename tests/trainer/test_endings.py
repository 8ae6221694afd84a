"""What ends a run ends it on every rank, with one line that says why and what to do: real ranks."""

from pathlib import Path

import pytest

from tests.places import REPOSITORY

pytestmark = pytest.mark.e2e

TRAINER = str(REPOSITORY / "trainer/__main__.py")
SMALL = ("--set", "embedding.rows=[40, 7, 90]", "--set", "embedding.dim=4", "--set", "train.global_batch=32")


@pytest.fixture
def end(start):
    """What two ranks say when they end, other than well."""

    def run(*arguments: str) -> str:
        ended = start(2, *arguments)
        assert ended.returncode != 0
        said = {line for line in ended.stderr.splitlines() if line.startswith("trainer: ")}
        assert len(said) == 1, ended.stderr
        assert 'Traceback (most recent call last):\n  File "/work' not in ended.stderr
        return said.pop()

    return run


def test_loss_that_is_no_number(end) -> None:
    said = end(TRAINER, *SMALL, "--set", "optimizer.dense_learning_rate=1e38")
    assert "the loss of step" in said
    assert "Look at the data, or go on from a checkpoint with a lower optimizer.dense_learning_rate" in said


def test_plan_that_does_not_fit(end) -> None:
    said = end(TRAINER, *SMALL, "--set", "sharding.memory_bytes=1000")
    assert "sharding.memory_bytes" in said


def test_rank_that_is_out_of_memory(end) -> None:
    large = ("--set", "embedding.rows=[2000000, 2000000]", "--set", "embedding.dim=64")
    said = end(str(Path(__file__).with_name("little_memory.py")), "200000000", *SMALL, *large)
    assert "rank 1 is out of memory" in said
    assert "Start more ranks" in said
