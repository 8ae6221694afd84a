"""Boxes of ranks that live as far as the kernel can tell, on a clock that passes when told to."""

import pytest

from tests.boxes import Box, Clock
from zmon.agent.sources.boxes import Boxes


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
