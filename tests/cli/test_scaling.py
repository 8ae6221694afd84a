"""`zmon scaling` runs real jobs at several sizes, says what failed and why, and leaves nothing running."""

import json
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from tests.boxes import eventually
from tests.places import REPOSITORY
from zmon.hub.baseline_store import BaselineStore

FAST = ("--rounds", "1", "--seconds", "2")


def scaling(tmp_path, *words, zmon=("-m", "zmon"), timeout=120):
    env = {**os.environ, "ZMON_DATA_DIR": str(tmp_path), "PYTHONPATH": str(REPOSITORY)}
    return subprocess.run(
        [sys.executable, *zmon, "scaling", *words],
        env=env, cwd=tmp_path, text=True, capture_output=True, timeout=timeout, check=False,
    )  # fmt: skip


@pytest.mark.e2e
def test_bundled_trainer_makes_a_curve_that_is_kept(tmp_path):
    told = scaling(
        tmp_path, *FAST, "--ranks", "1,2", "--mode", "weak", "--batch", "64", "--baseline", "ranker", "--json"
    )
    assert told.returncode == 0, told.stderr
    alone, two = json.loads(told.stdout)["sizes"]
    assert (alone["point"]["ranks"], alone["point"]["samples"], alone["ratio"]) == (1, 64, None)
    assert (two["point"]["ranks"], two["point"]["samples"], two["scaling"]) == (2, 128, "weak")
    assert two["half_width"] > 0
    assert sum(two["point"]["causes"].values()) == pytest.approx(two["point"]["seconds"])
    assert two["point"]["sent_bytes"]["all_to_all"] > 0
    assert two["point"]["processors_per_host"] == len(os.sched_getaffinity(0))
    assert [p.ranks for p in BaselineStore(tmp_path / "baselines").curve("ranker").points] == [1, 2]


@pytest.mark.e2e
def test_size_that_fails_is_said_with_its_last_line_and_the_others_are_measured(tmp_path):
    job = (
        f"if [ {{ranks}} = 2 ]; then echo no such host >&2; exit 7; fi;"
        f" exec {sys.executable} -m trainer --set train.global_batch=64"
    )
    told = scaling(tmp_path, *FAST, "--ranks", "1,2", "--", "bash", "-c", job)
    assert told.returncode == 1
    assert "2 ranks: unknown, it ended with exit code 7; it said last: no such host" in " ".join(told.stdout.split())
    assert told.stdout.splitlines()[1].split()[:3] == ["–", "1", "64"]


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("command", "says"),
    [
        (("bash", "-c", "exit 0 # {ranks}"), "no rank of it imported torch"),
        (("nobody-has-this-{ranks}",), "nobody-has-this-1: No such file or directory"),
    ],
)
def test_command_that_trains_nothing_is_unknown(tmp_path, command, says):
    told = scaling(tmp_path, *FAST, "--ranks", "1", "--", *command)
    assert told.returncode == 1
    assert says in " ".join(told.stdout.split())


def gone(pid):
    """A process that was killed takes a moment to die on a busy machine."""

    def is_gone():
        return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE

    return eventually(is_gone, 5)


# The command line with less patience for a job that does not end: 20 s otherwise.
IMPATIENT = (
    "-c",
    "import zmon.offline.sweep.job as job; job.END_SECONDS = 2.0; from zmon.cli.main import main; main()",
)
STUBBORN = "trap '' TERM; sleep 987 & echo $! > {marker}; wait; # {{ranks}}"
ORPHANS = "setsid sleep 987 & echo $! > {marker}; sleep 0.3; exit 0; # {{ranks}}"


@pytest.mark.e2e
@pytest.mark.parametrize(("job", "says"), [(STUBBORN, "no step ended within 1 s"), (ORPHANS, "no rank of it")])
def test_job_that_never_steps_is_given_up_and_ended_with_all_it_started(tmp_path, job, says):
    begun = time.monotonic()
    marker = tmp_path / "marker"
    command = ("bash", "-c", job.format(marker=marker))
    told = scaling(tmp_path, *FAST, "--ranks", "1", "--start-seconds", "1", "--", *command, zmon=IMPATIENT)
    assert told.returncode == 1
    assert says in " ".join(told.stdout.split())
    assert time.monotonic() - begun < 40
    assert gone(int(marker.read_text()))


@pytest.mark.e2e
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_whoever_ends_it_ends_the_job_as_well(tmp_path, number):
    marker = tmp_path / "marker"
    env = {**os.environ, "ZMON_DATA_DIR": str(tmp_path), "PYTHONPATH": str(REPOSITORY)}
    job = ("bash", "-c", f"sleep 987 & echo $! > {marker}; wait; # {{ranks}}")
    command = [sys.executable, "-m", "zmon", "scaling", "--ranks", "1", "--", *job]
    asked = subprocess.Popen(command, env=env, cwd=tmp_path, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 30
        while not (marker.exists() and marker.read_text()) and time.monotonic() < deadline:
            time.sleep(0.05)
        asked.send_signal(number)
        assert asked.wait(30) == 130
    finally:
        asked.kill()
    assert gone(int(marker.read_text()))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--ranks", "1,two"), "is not a list of sizes"),
        (("--ranks", "0"), "is not a list of sizes"),
        (("--baseline", "../up"), "not usable"),
        (("--", "torchrun", "train.py"), "{ranks}"),
        (("--", "torchrun", "{ranks}", "{batch}"), "--batch"),
    ],
)
def test_misuse_is_one_line_before_anything_runs(command, words, says):
    code, _, err = command("scaling", *words)
    assert code == 2
    assert len(err.splitlines()) == 1
    assert says in err
