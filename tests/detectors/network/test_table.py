"""Tests of the rows of docs/hangs.md about the network: where no data passes while all ranks wait."""

import pytest

from tests.detectors.network.table import SECTIONS
from tests.detectors.stalls import judged


@pytest.mark.parametrize("row", [row for rows in SECTIONS.values() for row in rows], ids=str)
def test_job_whose_network_fails_has_its_finding(row):
    assert judged(row) == (row.due, [])
