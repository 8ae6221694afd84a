"""Tests of runs that end with an error: every rank ends, with one line that has cause and next step; real ranks."""

from pathlib import Path

import pytest

from tests.places import REPOSITORY

pytestmark = pytest.mark.e2e

TRAINER = str(REPOSITORY / "trainer/__main__.py")
SMALL = ("--set", "embedding.rows=[40, 7, 90]", "--set", "embedding.dim=4", "--set", "train.global_batch=32")


@pytest.fixture
def end(start):
    """Run two ranks that fail, and return their error line."""

    def run(*arguments: str) -> str:
        ended = start(2, *arguments)
        assert ended.returncode != 0
        errors = {line for line in ended.stderr.splitlines() if line.startswith("trainer: ")}
        assert len(errors) == 1, ended.stderr
        assert 'Traceback (most recent call last):\n  File "/work' not in ended.stderr
        return errors.pop()

    return run


def test_loss_that_is_no_number(end) -> None:
    error = end(TRAINER, *SMALL, "--set", "optimizer.dense_learning_rate=1e38")
    assert "the loss of step" in error
    assert "Check the data, or resume from a checkpoint with a lower optimizer.dense_learning_rate" in error


def test_plan_that_does_not_fit(end) -> None:
    error = end(TRAINER, *SMALL, "--set", "sharding.memory_bytes=1000")
    assert "sharding.memory_bytes" in error


def test_rank_that_is_out_of_memory(end) -> None:
    large = ("--set", "embedding.rows=[2000000, 2000000]", "--set", "embedding.dim=64")
    error = end(str(Path(__file__).with_name("limited_memory.py")), "200000000", *SMALL, *large)
    assert "rank 1 is out of memory" in error
    assert "Start more ranks" in error
