"""Tests of the card and its files: the steps if only some ranks are watched, and what cannot be written."""

import json
from dataclasses import replace

import pytest

from tests.boxes import Box
from tests.build import JOB
from tests.cli.render.build import UNSEEN
from zmon.cli.render.time_advice import Advice
from zmon.cli.watch.child import Child
from zmon.cli.watch.launch import Launch
from zmon.cli.watch.outcome import outcome_card, unwatched_card, with_steps_of_one_rank
from zmon.cli.watch.watched_command import Options, WatchedCommand
from zmon.steplog import StepLog


def run_of(tmp_path, *command, **options):
    """Return a command that has ended."""
    return WatchedCommand(command, Child(7, status=0), Launch(1, False), tmp_path, 0.0, Options(**options))


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


def test_command_that_is_not_utf_8_is_on_the_card_and_in_its_json(tmp_path):
    run = run_of(tmp_path, "python", "caf\udce9.py", json=tmp_path / "card.json")
    card = unwatched_card(run, Advice("none", ""))
    assert json.loads((tmp_path / "card.json").read_text())["command"] == card.command == "python 'caf\ufffd.py'"


def test_working_directory_that_the_command_has_deleted_is_an_error_of_the_card(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    card = outcome_card(run_of(tmp_path, "python"), [JOB_UNSEEN], {JOB: ()}, tmp_path, "node-a")
    assert card.errors == ("cannot keep the report and the steps in the working directory: No such file or directory",)
