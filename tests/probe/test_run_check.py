"""Tests of the line that `zmon run` prints about processes that import torch without zmon."""

import sys
import time

import pytest

from tests.places import REPOSITORY
from tests.probe.run_job import python
from zmon.probe.run_check import isolating_option

RUN = f"""
import sys
sys.path.insert(0, {str(REPOSITORY)!r})
from zmon.probe.run import become_or_exit, environment, inherited_environment
from zmon.probe.run_check import check_beside
env = environment(inherited_environment())
check_beside(env["ZMON_RUN_PID"], look_seconds=0.05, lasting_seconds=0.1)
become_or_exit(sys.argv[1:], env)
"""
# A process that has this file in its memory looks as if it had imported torch. It ends once the check has ended.
LOADS = """
import mmap, os, socket, sys, time
with open("libtorch_cpu.so", "r+b") as file:
    library = mmap.mmap(file.fileno(), 0)
sys.stdin.close()
check, deadline = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM), time.monotonic() + 2.0
while time.monotonic() < deadline:
    try:
        check.connect("\\0zmon-run-" + os.environ["ZMON_RUN_PID"])
    except ConnectionRefusedError:
        break
    time.sleep(0.02)
"""


@pytest.fixture
def job(job, tmp_path):
    """Return the job, whose folder has a script that seems to have imported torch, and another sitecustomize."""
    (tmp_path / "libtorch_cpu.so").write_bytes(b"x" * 4096)
    job.write(tmp_path / "loads.py", LOADS)
    job.write(tmp_path / "other/sitecustomize.py", "")
    return job


def run(job, *command):
    """Run a command under `zmon run`, whose check looks more often than that of a user."""
    return job.run(*command, prefix=[sys.executable, "-c", RUN])


LOADS_TORCH = f"{sys.executable} loads.py"
UNHOOKED = {
    "another sitecustomize": (
        f"PYTHONPATH=other:$PYTHONPATH {LOADS_TORCH}",
        "other/sitecustomize.py hides that of zmon",
    ),
    "another path": (f"PYTHONPATH=other {LOADS_TORCH}", "PYTHONPATH was replaced"),
    "no path": (
        f"{sys.executable} -u -I loads.py",
        "Python was started with -I, which makes it ignore PYTHONPATH. Leave out -I",
    ),
    "no site": (
        f"{sys.executable} -S loads.py",
        "Python was started with -S, which keeps it from importing sitecustomize. Leave out -S",
    ),
}


@pytest.mark.parametrize(("start", "reason"), UNHOOKED.values(), ids=UNHOOKED)
def test_process_that_the_hook_does_not_reach_is_reported_once(job, start, reason):
    done = run(job, "sh", "-c", f"{start}; exit 3")
    assert done.returncode == 3
    (line,) = done.stderr.splitlines()
    assert line.startswith("zmon: process ")
    assert f"imported torch and is not watched: {reason}" in line


def test_process_is_reported_too_if_stdin_is_closed(job):
    """A descriptor of the check then has the number of stdin."""
    start, reason = UNHOOKED["another path"]
    without_stdin = ["sh", "-c", 'exec "$@" <&-', "sh", sys.executable, "-c", RUN]
    assert reason in job.run("sh", "-c", f"{start} < /dev/null", prefix=without_stdin).stderr


@pytest.mark.parametrize("start", [LOADS_TORCH, f"ZMON_DISABLED=1 PYTHONPATH=other {LOADS_TORCH}"])
def test_process_that_the_hook_reaches_or_that_switched_zmon_off_is_not_reported(job, start):
    done = run(job, "sh", "-c", f"{start}; true")
    assert (done.returncode, done.stderr) == (0, "")


def test_rank_that_is_watched_ends_the_check(job):
    watched = python("import zmon; from zmon.probe.run_check import note_watched; note_watched()")
    script = f"import subprocess, sys; subprocess.run({watched!r}); subprocess.run([sys.executable, '-I', 'loads.py'])"
    assert run(job, *python(script)).stderr == ""


def test_check_ends_with_the_command(job):
    begin = time.monotonic()
    assert run(job, "true").returncode == 0  # waits until stderr is closed, which the check also has open
    assert time.monotonic() - begin < 10.0


OPTIONS = {  # a command line → the option by which Python ignores the hook
    "python train.py -I": "", "python -I train.py": "I", "python -uE train.py": "E", "python -X dev -S x": "S",
    "python -Xfrozen_modules=off -I x": "I", "python -W ignore -E x": "E", "python -W -I x": "", "python -uX": "",
    "python -m train -I": "", "python -W ignore -c pass": "", "python -Bc pass": "", "python3": "",
}  # fmt: skip


@pytest.mark.parametrize("line", OPTIONS)
def test_options_that_ignore_the_hook_are_those_of_python(line):
    assert isolating_option(line.split()) == OPTIONS[line]
