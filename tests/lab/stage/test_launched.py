"""Tests of the end of a job. All its processes end, even if their parent has died, and no others."""

import os
import signal
import subprocess
import sys

import psutil
import pytest

from lab.jobs import FOLDER, environment
from lab.stage import JobSpec
from lab.stage.launched import launch, running
from tests.boxes import eventually

SPEC = JobSpec("job")
SLEEP = [sys.executable, "-c", "import time; time.sleep(100)"]
ORPHANS = [  # a launcher that dies and leaves a rank in a session of its own
    sys.executable, "-c", f"import subprocess; subprocess.Popen({SLEEP!r}, start_new_session=True)",
]  # fmt: skip


@pytest.fixture
def start(tmp_path):
    """Return a function that starts a job with this command as its launcher. All jobs are ended afterwards."""
    jobs = []

    def start_job(command, name="job"):
        folder = tmp_path / name
        folder.mkdir()
        jobs.append(launch(SPEC, folder, [(command, environment(SPEC, folder, tmp_path / "boxes"))]))
        return jobs[-1]

    yield start_job
    for job in jobs:
        job.end()


def test_end_of_a_job_ends_ranks_whose_launcher_died(start):
    job = start(ORPHANS)
    assert eventually(lambda: job.exit_code() == 0, 10)
    (rank,) = running(job.folder)
    job.end()
    assert eventually(lambda: not rank.is_running(), 5)


def test_launcher_that_ended_is_waited_for_at_once(start):
    job = start(["true"])
    assert eventually(lambda: not psutil.pid_exists(job.launchers[0]))
    assert eventually(lambda: job.exit_code() == 0)


def test_end_of_a_job_ends_a_stopped_rank(start):
    job = start(SLEEP)
    (rank,) = running(job.folder)
    rank.suspend()
    job.end()
    assert job.exit_code() is not None
    assert not running(job.folder)


def test_end_of_a_job_spares_other_jobs(start):
    job, other = start(SLEEP), start(SLEEP, "job-2")
    job.end()
    assert other.exit_code() is None


def test_second_end_of_a_job_spares_a_later_process_in_its_folder(start):
    job = start(SLEEP)
    job.end()
    with subprocess.Popen(SLEEP, env=os.environ | {FOLDER: str(job.folder)}) as later:
        job.end()
        assert later.poll() is None
        later.kill()


def test_job_sends_no_signal_after_its_launcher_is_reaped(start, monkeypatch):
    job = start([sys.executable, "-c", ""])
    assert eventually(lambda: job.exit_code() == 0, 10)
    monkeypatch.setattr(os, "kill", lambda *_: pytest.fail("its pid may be another's"))
    job.signal(signal.SIGTERM)
    job.end()


def test_environment_of_a_job_lacks_the_settings_of_the_user(monkeypatch, tmp_path):
    monkeypatch.setenv("ZMON_WEBHOOK_WARNINGS", "https://pager")
    monkeypatch.setenv("ZMON_LABELS", "team=x")
    settings = {name for name in environment(SPEC, tmp_path, tmp_path) if name.startswith("ZMON_")}
    assert settings == {"ZMON_JOB_ID", "ZMON_BOX_DIR"}


def test_running_ignores_processes_of_another_directory(tmp_path):
    with subprocess.Popen(SLEEP, env=os.environ | {FOLDER: f"{tmp_path}-other"}) as other:
        assert not running(tmp_path)
        other.kill()
