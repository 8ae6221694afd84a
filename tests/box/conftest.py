"""A box on a scripted clock, and a reader of it."""

import contextlib

import pytest

from tests.boxes import Box
from zmon.box.reader import BoxReader


@pytest.fixture
def box(tmp_path):
    return Box(tmp_path)


@pytest.fixture
def reader(box):
    with contextlib.closing(BoxReader(box.path)) as reader:
        yield reader
