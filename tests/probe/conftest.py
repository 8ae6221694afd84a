"""A box on a scripted clock, which a test writes with each edge of the probe, and a folder for `zmon run`."""

import pytest

from tests.boxes import Box
from tests.probe.run_job import Job
from zmon.probe import edge


@pytest.fixture(params=[edge.PYTHON, edge.C], ids=["Python edge", "C edge"])
def box(request, tmp_path):
    """Return the box of a rank that has begun no step. A test with it runs once for each edge."""
    if request.param is None:
        pytest.skip("the package was built without a compiler")
    return Box(tmp_path, edge=request.param)


@pytest.fixture
def job(tmp_path):
    """Return a folder in which commands run with and without `zmon run`."""
    return Job(tmp_path)
