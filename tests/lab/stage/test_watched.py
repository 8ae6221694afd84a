"""Tests of the stage of `zmon watch`, with a real job."""

import pytest

from lab.stage import JobSpec
from lab.stage.watched import Watched
from tests.boxes import eventually


@pytest.fixture
def watched(tmp_path):
    stage = Watched(tmp_path)
    yield stage
    stage.close()


@pytest.mark.slow
def test_watch_answers_while_it_runs_and_its_card_afterwards(watched):
    job = watched.start(JobSpec("drill-1", "plain", ranks=1, steps=100))
    assert eventually(lambda: watched.ranks("drill-1"), 60.0)[0].world_size == 1
    assert eventually(lambda: watched.job("drill-1"), 60.0).world_size == 1
    job.signal(9)  # to watch: the job lives on, and nobody sees it
    assert eventually(lambda: not watched.ranks("drill-1"), 30.0)
    assert watched.pages() == [] == watched.findings(None)
