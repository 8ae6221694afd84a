"""Tests of the steps on a card if only some ranks of the job are watched: those of the first watched rank."""

from dataclasses import replace

import pytest

from tests.boxes import Box
from tests.build import JOB
from tests.cli.render.test_card import UNSEEN
from zmon.cli.watch.outcome import with_steps_of_one_rank
from zmon.steplog import StepLog

JOB_UNSEEN = replace(UNSEEN, view=replace(UNSEEN.view, job_id=JOB))


def test_steps_are_those_of_the_first_watched_rank(tmp_path):
    log = StepLog(tmp_path / "steps", "node-a")
    boxes = [Box(tmp_path / "boxes", identity={"rank": rank}) for rank in (1, 2)]
    for box in boxes:
        box.steps(10)
    log.append({box.path: box.path.stat().st_ino for box in boxes})
    log.close()
    job = with_steps_of_one_rank(JOB_UNSEEN, tmp_path / "steps")
    assert job.of_rank == 1
    assert job.view.step_seconds == pytest.approx(0.02, rel=0.1)
    assert sum(job.view.time.values()) == pytest.approx(10 * 0.02, rel=0.1)


def test_job_without_a_log_is_unchanged(tmp_path):
    assert with_steps_of_one_rank(JOB_UNSEEN, tmp_path) is JOB_UNSEEN
