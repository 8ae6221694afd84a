"""A box on a scripted clock, which a test writes with the code of a rank: with that in Python and with that in C."""

import pytest

from tests.boxes import Box
from zmon.probe import edge


@pytest.fixture(params=[edge.PYTHON, edge.C], ids=["Python edge", "C edge"])
def box(request, tmp_path):
    if request.param is None:
        pytest.skip("the package was built without a compiler")
    return Box(tmp_path, edge=request.param)
