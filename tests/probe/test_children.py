"""Tests of the processes that a rank starts: they may be ranks only if that rank was its whole job."""

import contextlib
import os
import subprocess
import sys

import pytest

from tests.boxes import read_totals
from zmon.box.reader import BoxReader
from zmon.probe.run import environment

FORK = """
import os, sys
from zmon import probe
probe.expect_rank(lambda: None)
probe.start_as_rank(*map(int, sys.argv[1:]))
parent = probe.current
def child(become):
    pid = os.fork()
    if pid == 0:
        become()
        print(probe._identity.rank if probe.current else "unwatched", flush=True)
        os._exit(0)
    os.waitpid(pid, 0)
child(probe.start_training)
child(lambda: probe.start_as_rank(1, 2))
assert probe.current is parent
"""
# A process trains for a warm-up, and then starts two ranks, as with torch.multiprocessing.spawn in a notebook.
SCRIPT = """
import multiprocessing, os, sys, torch
import torch.distributed as dist

def train(steps):
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()

def helper():
    train(7)

def rank(number, store):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=number, world_size=2)
    train(5)
    dist.destroy_process_group()

if __name__ == "__main__":
    train(3)
    context = multiprocessing.get_context(sys.argv[1])
    ranks = [context.Process(target=rank, args=(number, sys.argv[2])) for number in range(2)]
    processes = [context.Process(target=helper), *ranks]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    train(2)
"""


def test_fork_of_a_process_that_is_its_whole_job_is_a_rank_only_if_it_joins_others(tmp_path):
    assert fork(tmp_path) == ["unwatched", "1"]


def test_fork_of_a_rank_with_peers_is_no_rank(tmp_path):
    assert fork(tmp_path, 0, 2) == ["unwatched", "unwatched"]


def fork(tmp_path, *rank):
    """Fork a rank twice; return the rank that each fork is: a fork that trains, and one that joins a process group."""
    env = {**os.environ, "ZMON_BOX_DIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path), "MASTER_ADDR": "::1"}
    command = [sys.executable, "-c", FORK, *map(str, rank)]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=60).stdout.split()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize("job_id", [None, "named"])
def test_ranks_that_a_process_starts_after_it_trained_are_watched_and_its_helper_is_not(tmp_path, method, job_id):
    (tmp_path / "script.py").write_text(SCRIPT)
    env = {name: value for name, value in os.environ.items() if not name.startswith("ZMON_")}
    env = environment({**env, "ZMON_BOX_DIR": str(tmp_path / "boxes")}, job_id)
    command = [sys.executable, tmp_path / "script.py", method, tmp_path / "store"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=300)
    assert done.stderr == ""
    ranks = []  # world size, rank and steps
    for path in (tmp_path / "boxes").glob("*/*/rank-*.box"):
        with contextlib.closing(BoxReader(path)) as reader:
            identity = reader.identity()
            assert reader.words().kind == "exit"
            assert identity.socket  # through which the agent reads stacks
            ranks.append((identity.world_size, identity.rank, read_totals(reader).steps))
        if job_id:  # otherwise the second launch is a job of its own
            assert (identity.job_id, identity.attempt) == (job_id, 0 if identity.world_size == 1 else 1)
    assert sorted(ranks) == [(1, 0, 5), (2, 0, 5), (2, 1, 5)]
