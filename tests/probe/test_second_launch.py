"""Tests of a second launch with the same job id on a host: it is a job of its own while the first launch lives."""

import os
import subprocess
import sys
from typing import NamedTuple

import pytest

RANK = """
import sys
from zmon import probe
probe.attach_box("x")  # without the hooks into torch
print(probe._identity.job_id if probe._identity else "", flush=True)
sys.stdin.readline()
"""
ELASTIC = {"TORCHELASTIC_RUN_ID": "none", "LOCAL_WORLD_SIZE": "4", "WORLD_SIZE": "4"}


class Started(NamedTuple):
    """A rank that has attached."""

    process: subprocess.Popen
    job_id: str


@pytest.fixture
def start(tmp_path):
    """Yield a function that starts a rank, whose launcher is this process, and returns it."""
    ranks = []

    def begin(**env):
        env = {**os.environ, "ZMON_BOX_DIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path), **env}
        rank = subprocess.Popen(
            [sys.executable, "-c", RANK], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=(tmp_path / "stderr").open("ab"), text=True,
        )  # fmt: skip
        ranks.append(rank)
        return Started(rank, rank.stdout.readline().strip())

    yield begin
    for rank in ranks:
        end(rank)


def end(rank):
    """End a rank, if it has not ended."""
    if rank.returncode is None:
        rank.communicate("\n", timeout=20)


def test_second_launch_has_another_id_and_says_so(start, tmp_path):
    (_, first), (_, second) = start(), start()
    assert first == "x"
    assert second.startswith("x.")
    (line,) = (tmp_path / "stderr").read_text().splitlines()
    assert f"another launch with the job id x runs on this host: this one is watched as the job {second}" in line
    assert start().job_id not in (first, second)


def test_launch_of_another_size_is_another_job(start):
    _, first = start(**ELASTIC, RANK="0")
    _, second = start(**{**ELASTIC, "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "8", "TORCHELASTIC_RUN_ID": "b"}, RANK="5")
    assert (first, second[:2]) == ("x", "x.")


def test_ranks_and_restarts_of_one_launch_keep_its_id(start):
    assert [start(**ELASTIC, RANK=rank).job_id for rank in "012"] == ["x"] * 3
    assert start(**ELASTIC, RANK="0", TORCHELASTIC_RESTART_COUNT="1").job_id == "x"


def test_second_launch_keeps_its_id_when_the_first_has_ended(start):
    first, _ = start()
    _, second = start(**ELASTIC, RANK="0")
    end(first)
    assert start(**ELASTIC, RANK="1").job_id == second
    assert start(**ELASTIC, RANK="1", TORCHELASTIC_RESTART_COUNT="1").job_id == second


def test_launch_after_one_that_has_ended_has_its_id(start):
    first, _ = start()
    end(first)
    assert start().job_id == "x"
