"""Tests of the state of a job after a fault, from its own files and processes."""

import os
import time
from types import SimpleNamespace

import pytest

from lab.drills import ending
from lab.drills.drill import Scene
from lab.drills.ending import Aftermath, observe

P99_SECONDS = 0.5


@pytest.fixture
def scene(tmp_path):
    """A drill whose job has its files in `tmp_path` and whose struck rank is this process."""
    spec = SimpleNamespace(max_restarts=0)
    job = SimpleNamespace(spec=spec, folder=tmp_path, exit_code=lambda: None)
    return Scene(SimpleNamespace(policy=None), job, 1, "node-a", os.getpid(), None)


def write_steps(scene, text, seconds_ago):
    file = scene.job.folder / "steps-0"
    file.write_text(text)
    modified = time.time() - seconds_ago
    os.utime(file, (modified, modified))


@pytest.mark.parametrize(
    ("seconds_ago", "onset_ago", "moves"),
    [(0.1, 60.0, True), (5.0, 60.0, False), (0.1, 0.5, False)],
    ids=["steps go on", "no recent step", "the step began before the fault"],
)
def test_job_moves_if_a_recent_step_began_after_the_fault(scene, seconds_ago, onset_ago, moves):
    write_steps(scene, "1 0.5\n2 0.5\n", seconds_ago)
    assert observe(scene, time.time() - onset_ago, P99_SECONDS) == Aftermath(moves, restarted=False)


def test_job_whose_launcher_has_ended_does_not_move(scene):
    write_steps(scene, "1 0.5\n2 0.5\n", 0.1)
    scene.job.exit_code = lambda: 1
    assert not observe(scene, time.time() - 60, P99_SECONDS).moves


def test_second_launch_counts_its_steps_from_one(scene):
    write_steps(scene, "1 0.5\n2 0.5\n1 0.5\n", 0.1)
    assert observe(scene, time.time() - 1, P99_SECONDS) == Aftermath(moves=True, restarted=True)


def test_restart_is_awaited_while_the_process_of_the_rank_still_ends(scene, monkeypatch):
    write_steps(scene, "1 0.5\n2 0.5\n", 5.0)
    scene.job.spec.max_restarts = 2
    monkeypatch.setattr(ending, "running", lambda folder: [SimpleNamespace(pid=scene.pid)])
    monkeypatch.setattr(ending, "wait_until", lambda holds, seconds: write_steps(scene, "1 0.5\n1 0.5\n", 0.1))
    assert observe(scene, time.time() - 5, P99_SECONDS, ("rank_exited",)) == Aftermath(moves=True, restarted=True)
    write_steps(scene, "1 0.5\n2 0.5\n", 5.0)
    assert observe(scene, time.time() - 5, P99_SECONDS, ("rank_frozen",)) == Aftermath(moves=False, restarted=False)


def test_restart_is_awaited_until_the_launcher_gives_up(scene, monkeypatch):
    write_steps(scene, "1 0.5\n2 0.5\n", 5.0)
    scene.job.spec.max_restarts = 2
    scene.job.exit_code = iter([None, 1, 1]).__next__
    monkeypatch.setattr(ending, "running", lambda folder: [])
    assert observe(scene, time.time() - 5, P99_SECONDS) == Aftermath(moves=False, restarted=False)
