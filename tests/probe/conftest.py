"""A box on a scripted clock, which a test writes with the code of a rank."""

import pytest

from tests.boxes import Box


@pytest.fixture
def box(tmp_path):
    return Box(tmp_path)
