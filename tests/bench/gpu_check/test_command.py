"""Tests of the command, run as people run it, on a machine whose GPUs are hidden."""

import os
import subprocess
import sys

import pytest

from bench.gpu_check import __main__ as command
from bench.gpu_check.checks import ALL
from bench.gpu_check.kit import Check
from bench.gpu_check.result import FAILED, PASSED, Result
from bench.gpu_check.settings import MACHINE
from tests.bench.gpu_check.machines import WITHOUT_GPU
from tests.places import REPOSITORY

NEEDS_GPU = tuple(check.name for check in ALL if all(setting.num_gpus for setting in check.settings))


def run(*arguments):
    command, env = [sys.executable, "-m", "bench.gpu_check", *arguments], {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run(command, cwd=REPOSITORY, env=env, capture_output=True, text=True, timeout=150, check=False)


@pytest.mark.e2e  # it imports torch in a process
def test_command_without_gpu_says_what_it_cannot_check():
    done = run("--only", "versions", *NEEDS_GPU)
    assert done.returncode == 0, done.stderr
    assert "| version of torch |  | passed |" in done.stdout
    _, _, not_checked = done.stdout.partition("### Not checked\n")
    for check in ALL:
        if check.name in NEEDS_GPU:
            assert f"| {check.title} | " in not_checked
    assert not_checked.count("no GPU: torch") == len(NEEDS_GPU) + 1  # and the UUIDs
    assert " 0 failed" in done.stdout


@pytest.mark.e2e
@pytest.mark.slow  # jobs under agent and hub are in every run, among the drills
def test_checks_that_need_no_gpu_pass_on_the_cpu():
    done = run("--only", "ddp", "stalls")
    assert done.returncode == 0, done.stderr
    assert "| collectives in the box, by process group | 2 ranks, gloo on the CPU | passed |" in done.stdout
    assert (
        "| ranks named after the other ranks died too | 2 ranks, gloo on the CPU | passed | 1 | 1 |  |" in done.stdout
    )


def test_failed_check_is_the_exit_code(monkeypatch, capsys):
    def fails(kit, setting):
        yield Result("one", PASSED)
        yield Result("other", FAILED)

    monkeypatch.setattr(command, "this_machine", lambda: WITHOUT_GPU)
    monkeypatch.setattr(command.signal, "signal", lambda *_: None)
    for checks, code in (((Check("fails", "Title", (MACHINE,), fails),), 1), ((), 0)):
        monkeypatch.setattr(command, "ALL", checks)
        assert command.main([]) == code
    assert "1 passed, 1 failed" in capsys.readouterr().out
