"""The fixture `store`: the baselines of the hub of a test."""

import pytest

from zmon.hub.baseline_store import FOLDER, BaselineStore


@pytest.fixture
def store(tmp_path):
    return BaselineStore(tmp_path / FOLDER)
