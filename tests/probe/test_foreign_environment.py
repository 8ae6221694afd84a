"""Test of a job in an environment that has torch but not the dependencies of zmon. Its ranks are watched."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.foreign_environment import assert_ranks_are_watched, make_environment

pytestmark = pytest.mark.e2e


def test_ranks_in_an_environment_without_zmons_dependencies_are_watched(tmp_path: Path) -> None:
    python = make_environment(tmp_path / "foreign")
    assert_ranks_are_watched([sys.executable, "-m", "zmon", "run"], python, tmp_path)
