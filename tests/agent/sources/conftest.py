"""Boxes of ranks that live as far as the kernel can tell, on a clock that passes when told to."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.boxes import Box, Clock
from zmon.agent.sources.boxes import Boxes


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder with a short name: pytest's own, of a worker of xdist, leaves no room for the path of a socket."""
    with tempfile.TemporaryDirectory(prefix="zmon-") as folder:
        yield Path(folder)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def live(tmp_path, clock, stand_in):
    """Make a box whose rank lives: another process holds it."""

    def make(rank=0, **identity):
        process = stand_in()
        box = Box(tmp_path, clock, {"rank": rank, "world_size": 8, "pid": process.pid, **identity}, process)
        box.process = process
        return box

    return make


@pytest.fixture
def boxes(tmp_path, clock):
    return Boxes(tmp_path, "node-a", clock=clock)


@pytest.fixture
def states(boxes):
    """State by rank, as of a fresh look."""

    def look():
        boxes.look()
        return {state.rank: state for _, state in boxes.ranks()}

    return look
