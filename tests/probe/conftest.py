"""A box on a scripted clock, which a test writes with both edges of the probe; and a folder for `zmon run`."""

import pytest

from tests.boxes import Box
from tests.probe.run_job import Job
from zmon.probe import edge


@pytest.fixture(params=[edge.PYTHON, edge.C], ids=["Python edge", "C edge"])
def box(request, tmp_path):
    if request.param is None:
        pytest.skip("the package was built without a compiler")
    return Box(tmp_path, edge=request.param)


@pytest.fixture
def job(tmp_path):
    return Job(tmp_path)
