"""The folder of a step log, a box of rank 0, and a log that is closed after the test."""

import pytest

from tests.steplog.build import rank_box
from zmon.steplog import StepLog


@pytest.fixture
def root(tmp_path):
    """Return the folder of the step log."""
    return tmp_path / "data/steps"


@pytest.fixture
def box(tmp_path):
    """Return the box of rank 0, which has taken no step."""
    return rank_box(tmp_path / "boxes")


@pytest.fixture
def log(root):
    """Yield a step log, and close it after the test."""
    log = StepLog(root, "node-a")
    yield log
    log.close()
