"""Tests of the stage of `zmon watch`, with a real job."""

import os
import signal

import pytest

from lab.stage import JobSpec
from lab.stage.watched import Watched
from tests.boxes import eventually


@pytest.fixture
def watched(tmp_path):
    """The stage; it ends with its jobs."""
    stage = Watched(tmp_path)
    yield stage
    stage.close()


@pytest.mark.slow
def test_stage_reads_the_answers_of_a_running_watch_and_the_card_of_one_that_has_ended(watched):
    job = watched.start(JobSpec("drill-1", "plain", ranks=1))
    rank = eventually(lambda: watched.ranks("drill-1").get(0), 60.0)
    assert eventually(lambda: watched.job("drill-1"), 60.0).world_size == 1
    os.kill(rank.pid, signal.SIGKILL)
    assert eventually(lambda: job.exit_code() is not None, 60.0)
    assert not watched.ranks("drill-1")
    assert [finding.cause for finding in watched.findings("drill-1", active=False)] == ["rank_exited"]
    assert watched.findings("drill-1") == watched.pages() == []
