"""Tests of `zmon scaling`, which runs real jobs at several sizes. It reports failures and leaves no process running.

The slow tests train, or wait until a job without a step is killed. The fast tests run commands that do not train.
"""

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


def environment(tmp_path):
    return {**os.environ, "ZMON_DATA_DIR": str(tmp_path), "PYTHONPATH": str(REPOSITORY)}


def scaling(tmp_path, *words, zmon=("-m", "zmon")):
    """Run `zmon scaling` in a process of its own: it becomes a subreaper, which cannot be undone."""
    return subprocess.run(
        [sys.executable, *zmon, "scaling", *words],
        env=environment(tmp_path), cwd=tmp_path, text=True, capture_output=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.e2e
def test_curve_of_bundled_trainer_is_recorded_as_baseline(tmp_path):
    done = scaling(
        tmp_path, *FAST, "--ranks", "1,2", "--mode", "weak", "--batch", "64", "--baseline", "ranker", "--json"
    )
    assert done.returncode == 0, done.stderr
    one_rank, two_ranks = json.loads(done.stdout)["sizes"]
    point = two_ranks["point"]
    assert (one_rank["point"]["ranks"], one_rank["point"]["samples"], one_rank["ratio"]) == (1, 64, None)
    assert (point["ranks"], point["samples"], two_ranks["scaling"]) == (2, 128, "weak")
    assert two_ranks["half_width"] > 0
    assert sum(point["causes"].values()) == pytest.approx(point["seconds"])
    assert point["sent_bytes"]["all_to_all"] > 0
    assert point["processors_per_host"] == len(os.sched_getaffinity(0))
    assert [p.ranks for p in BaselineStore(tmp_path / "baselines").curve("ranker").points] == [1, 2]


@pytest.mark.slow
@pytest.mark.e2e
def test_failed_size_is_reported_below_the_measured_sizes_with_its_last_line(tmp_path):
    job = (
        f"if [ {{ranks}} = 2 ]; then echo no such host >&2; exit 7; fi;"
        f" exec {sys.executable} -m trainer --set train.global_batch=64"
    )
    done = scaling(tmp_path, *FAST, "--ranks", "1,2", "--", "bash", "-c", job)
    assert done.returncode == 1
    _, measured, *below = done.stdout.splitlines()
    assert measured.split()[:3] == ["–", "1", "64"]  # scaling, ranks and samples
    failure = "2 ranks: unknown, the command ended with exit code 7; last line: no such host"
    assert failure in " ".join(" ".join(below).split())


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("command", "part"),
    [
        (("bash", "-c", "exit 0 # {ranks}"), "no rank imported torch"),  # zmon requires {ranks} in a command
        (("nobody-has-this-{ranks}",), "nobody-has-this-1: No such file or directory"),
    ],
)
def test_command_without_training_exits_with_1_and_reason(tmp_path, command, part):
    done = scaling(tmp_path, *FAST, "--ranks", "1", "--", *command)
    assert done.returncode == 1
    assert part in " ".join(done.stdout.split())


def is_gone(pid):
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


# The command line with 2 s instead of 20 s between SIGTERM and SIGKILL.
IMPATIENT = ("-c", "import lab.sweep.job as job; job.END_SECONDS = 2.0; from zmon.cli.main import main; main()")
# Bash takes what follows # for a comment, but zmon requires {ranks} in a command.
STUBBORN = "trap '' TERM; sleep 987 & echo $! > {marker}; wait; # {{ranks}}"
ORPHANS = "setsid sleep 987 & echo $! > {marker}; sleep 0.3; exit 0; # {{ranks}}"


@pytest.mark.slow
@pytest.mark.e2e
@pytest.mark.parametrize(("job", "part"), [(STUBBORN, "no step ended within 1 s"), (ORPHANS, "no rank imported")])
def test_job_without_a_step_is_ended_with_all_its_processes(tmp_path, job, part):
    begin = time.monotonic()
    marker = tmp_path / "marker"
    command = ("bash", "-c", job.format(marker=marker))
    done = scaling(tmp_path, *FAST, "--ranks", "1", "--start-seconds", "1", "--", *command, zmon=IMPATIENT)
    assert done.returncode == 1
    assert part in " ".join(done.stdout.split())
    assert time.monotonic() - begin < 40
    assert eventually(lambda: is_gone(int(marker.read_text())))


@pytest.mark.e2e
@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_ends_scaling_and_its_job(tmp_path, signal_number):
    marker = tmp_path / "marker"
    job = ("bash", "-c", f"sleep 987 & echo $! > {marker}; wait; # {{ranks}}")
    command = [sys.executable, "-m", "zmon", "scaling", "--ranks", "1", "--", *job]
    process = subprocess.Popen(command, env=environment(tmp_path), cwd=tmp_path, stderr=subprocess.DEVNULL)
    try:
        assert eventually(lambda: marker.exists() and marker.read_text(), 30)
        process.send_signal(signal_number)
        assert process.wait(30) == 130
    finally:
        process.kill()
    assert eventually(lambda: is_gone(int(marker.read_text())))


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("--ranks", "1,two"), "is not a list of sizes"),
        (("--ranks", "0"), "is not a list of sizes"),
        (("--baseline", "../up"), "not usable"),
        (("--", "torchrun", "train.py"), "{ranks}"),
        (("--", "torchrun", "{ranks}", "{batch}"), "--batch"),
    ],
)
def test_misuse_prints_one_line_and_exits_with_2(command, words, part):
    code, _, err = command("scaling", *words)
    assert code == 2
    assert len(err.splitlines()) == 1
    assert part in err
