"""Tests of the view of a job: the source of its samples is the least certain of its ranks."""

from pathlib import Path

import pytest

from tests.build import rank_state, snapshot
from zmon.hub.api.view import view
from zmon.hub.job_state import JobStates


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        (("declared", "declared"), "declared"),
        (("declared", "loader"), "loader"),
        (("model", "loader"), "model"),
        (("loader", ""), ""),
        (("", ""), ""),
        (("loader", "newer"), "newer"),  # only a newer zmon knows it
    ],
)
def test_source_of_samples_is_the_least_certain_of_the_ranks(tmp_path: Path, sources, expected):
    ranks = [rank_state(rank, samples_source=source) for rank, source in enumerate(sources)]
    assert view(snapshot(*ranks), JobStates(tmp_path), []).samples_source == expected
