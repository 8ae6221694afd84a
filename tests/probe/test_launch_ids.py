"""Tests of launch ids, with real processes: a launch has an id of its own, and all its ranks and restarts have it."""

import os
import subprocess
import sys
from typing import NamedTuple

import pytest

RANK = """
import os
from zmon.probe.launch import read_launch
result = read_launch(os.environ)
os.write(1, f"{result.launch_id} {result.launcher_pid}\\n".encode())
"""
NODE = {"ZMON_JOB_ID": "x", "MASTER_ADDR": "10.0.0.7", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1"}


def local(rank, port=1, size=2):
    """Return the variables of a rank whose launch is on one host."""
    place = {"RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": str(size)}
    return {"MASTER_ADDR": "localhost", "MASTER_PORT": str(port), **place}


def elastic(rank, restart, port=1, size=2):
    """Return the variables that torchrun sets for a rank on one host, without `--rdzv-id`."""
    elastic_variables = {"TORCHELASTIC_RUN_ID": "none", "TORCHELASTIC_RESTART_COUNT": str(restart)}
    return local(rank, port, size) | elastic_variables


class Ranks(NamedTuple):
    """The launch ids and launchers of the ranks, in the order in which the ranks print them."""

    launch_ids: list[str]
    launchers: list[str]  # their pids


def start_ranks(tmp_path, *starts, command="{}"):
    """Start a rank with each of these variables in one shell.

    `command` is a wrapper, with `{}` where the command of the rank is.
    """
    (tmp_path / "rank.py").write_text(RANK)
    rank = command.format(f"{sys.executable} {tmp_path / 'rank.py'}")
    lines = [f"env {' '.join(f'{name}={value}' for name, value in start.items())} {rank}" for start in starts]
    done = subprocess.run(
        ["sh", "-c", "\n".join([*lines, "true"])], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    ranks = [line.split() for line in done.stdout.splitlines()]
    assert len(ranks) == len(starts), done.stderr
    return Ranks([launch_id for launch_id, _ in ranks], [pid for _, pid in ranks])


ONE_LAUNCH = {
    "ranks that a shell starts": [local(0), local(1)],
    "restarts of torchrun that meet elsewhere": [
        elastic(0, 0), elastic(1, 0), elastic(0, 1, port=2), elastic(1, 1, port=2)],
    "restarts of a single rank below torchrun": [elastic(0, 0, size=1), elastic(0, 1, port=2, size=1)],
}  # fmt: skip
SEVERAL_LAUNCHES = {
    "a sweep of single ranks": [{}, {}, {}],
    "a sweep with a rank in its environment": [local(0, size=1), local(0, size=1)],
    "two launches of one shell": [local(0), local(0, port=2)],
    "launches of two sizes": [local(0), local(0, size=4)],
}


@pytest.mark.parametrize("starts", ONE_LAUNCH.values(), ids=ONE_LAUNCH)
def test_ranks_and_restarts_of_a_launch_have_one_id(tmp_path, starts):
    assert len(set(start_ranks(tmp_path, *starts).launch_ids)) == 1


@pytest.mark.parametrize("starts", SEVERAL_LAUNCHES.values(), ids=SEVERAL_LAUNCHES)
def test_launches_have_different_ids(tmp_path, starts):
    assert len(set(start_ranks(tmp_path, *starts).launch_ids)) == len(starts)


def test_launches_of_two_shells_have_different_ids(tmp_path):
    assert start_ranks(tmp_path, local(0)).launch_ids != start_ranks(tmp_path, local(0)).launch_ids


def test_wrappers_of_each_rank_do_not_hide_their_launcher(tmp_path):
    """A shell, numactl or a profiler below the launcher differs from rank to rank."""
    ids, launchers = start_ranks(tmp_path, local(0), local(1), command="sh -c '{}; true'")
    assert len(set(ids)) == len(set(launchers)) == 1


def test_nodes_of_a_launch_have_one_id(tmp_path):
    first, second, other = (
        start_ranks(tmp_path, {**NODE, "RANK": rank, "MASTER_PORT": port}).launch_ids
        for rank, port in (("0", "1"), ("1", "1"), ("0", "2"))
    )
    assert first == second != other
