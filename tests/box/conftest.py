"""A box on a scripted clock, a reader of it, and two boxes whose contents are known."""

import contextlib

import pytest

from tests.box.written import write_box
from tests.boxes import Box
from zmon.box.reader import BoxReader


@pytest.fixture
def box(tmp_path):
    """Return the box of a rank that has written its identity and no step."""
    return Box(tmp_path)


@pytest.fixture
def reader(box):
    """Yield a reader that has the box open."""
    with contextlib.closing(BoxReader(box.path)) as reader:
        yield reader


@pytest.fixture(scope="module")
def boxes(tmp_path_factory):
    """Return two boxes, each with its bytes and the values written into it."""
    root = tmp_path_factory.mktemp("boxes")
    return [write_box(root, rank) for rank in (0, 1)]
