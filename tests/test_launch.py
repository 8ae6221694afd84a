"""Which job, attempt and rank is this? Told by the launcher, refused where nobody can agree on it."""

import os
import time
from datetime import datetime
from pathlib import Path

import pytest

from zmon import launch
from zmon.errors import UsageError
from zmon.launch import check_job_id, read_launch
from zmon.process import ProcessStat, process_stat

TORCHRUN = {
    "RANK": "5", "LOCAL_RANK": "1", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4", "TORCHELASTIC_RUN_ID": "dlrm-17",
    "TORCHELASTIC_RESTART_COUNT": "2", "TORCHELASTIC_MAX_RESTARTS": "3",
}  # fmt: skip
SLURM = {
    "SLURM_JOB_ID": "991", "SLURM_PROCID": "6", "SLURM_LOCALID": "2", "SLURM_NTASKS": "8", "SLURM_JOB_NUM_NODES": "2",
}  # fmt: skip


def test_torchrun_tells_everything():
    found = read_launch(TORCHRUN)
    assert (found.job_id, found.attempt) == ("dlrm-17", 2)
    assert (found.rank, found.local_rank, found.world_size, found.local_world_size) == (5, 1, 8, 4)
    assert (found.restart_count, found.max_restarts) == (2, 3)


def test_launcher_is_the_parent():
    found = read_launch(TORCHRUN)
    parent = process_stat(os.getppid())
    assert (found.launcher_pid, found.launcher_start_ticks) == (os.getppid(), parent.start_ticks if parent else 0)


def test_slurm_tells_everything_but_a_restart_and_who_shares_the_host():
    found = read_launch(SLURM)
    assert (found.job_id, found.attempt, found.max_restarts) == ("slurm-991", 0, -1)
    assert (found.rank, found.local_rank, found.world_size) == (6, 2, 8)
    assert not found.one_host
    assert read_launch({**SLURM, "SLURM_JOB_NUM_NODES": "1"}).one_host


def test_ranks_share_a_host_only_where_that_is_certain():
    assert read_launch({}).one_host
    assert read_launch({**TORCHRUN, "LOCAL_WORLD_SIZE": "8"}).one_host
    assert not read_launch(TORCHRUN).one_host
    by_hand = {"RANK": "1", "WORLD_SIZE": "2", "ZMON_JOB_ID": "x"}
    assert not read_launch(by_hand).one_host
    assert read_launch({**by_hand, "MASTER_ADDR": "127.0.0.1"}).one_host


def test_script_alone_is_one_rank_without_a_launcher_that_restarts():
    found = read_launch({})
    assert (found.rank, found.local_rank, found.world_size, found.local_world_size) == (0, 0, 1, 1)
    assert (found.attempt, found.max_restarts) == (0, -1)


def test_job_id_is_the_explicit_one_then_zmons_then_slurms_then_torchruns():
    env = {**SLURM, **TORCHRUN, "ZMON_JOB_ID": "mine"}
    assert read_launch(env, "explicit").job_id == "explicit"
    assert read_launch(env).job_id == "mine"
    del env["ZMON_JOB_ID"]
    assert read_launch(env).job_id == "slurm-991"
    del env["SLURM_JOB_ID"]
    assert read_launch(env).job_id == "dlrm-17"


def test_attempt_that_is_given_wins_over_the_restart_count():
    found = read_launch({**TORCHRUN, "ZMON_ATTEMPT": "9"})
    assert (found.attempt, found.restart_count) == (9, 2)


def test_one_node_without_an_id_gets_one_from_script_and_time(monkeypatch):
    monkeypatch.setattr("sys.argv", ["/home/ann/train dlrm.py"])
    job_id = read_launch({**TORCHRUN, "TORCHELASTIC_RUN_ID": "none", "LOCAL_WORLD_SIZE": "8"}).job_id
    script, _, started = job_id.rpartition("-")
    assert script == "train_dlrm"
    assert datetime.strptime(started, "%Y%m%dT%H%MZ")
    monkeypatch.setattr("sys.argv", ["/home/ann/trainer/__main__.py"])
    assert read_launch({}).job_id.startswith("trainer-")


def test_several_nodes_without_an_id_are_refused():
    with pytest.raises(UsageError) as caught:
        read_launch({**TORCHRUN, "TORCHELASTIC_RUN_ID": "none"})
    assert "ZMON_JOB_ID" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("job_id", ["a/b", "", "a b", "é", "x" * 65, "a\n"])
def test_job_id_that_is_none_is_refused(job_id):
    with pytest.raises(UsageError, match="not usable"):
        check_job_id(job_id)


@pytest.mark.parametrize("job_id", [".", ".."])
def test_job_id_that_names_a_directory_above_is_refused(job_id):
    """Its box would lie outside the box directory, where no agent looks."""
    with pytest.raises(UsageError, match="not usable"):
        check_job_id(job_id)


@pytest.mark.parametrize("job_id", ["x" * 64, "A.b-c_9", "17"])
def test_job_id_is_taken_as_it_is(job_id):
    assert check_job_id(job_id) == job_id


def test_number_that_is_none_names_its_variable():
    with pytest.raises(UsageError, match="RANK='two'"):
        read_launch({**TORCHRUN, "RANK": "two"})


def test_ranks_of_one_start_agree_on_the_id_of_a_job_that_has_none(monkeypatch):
    """Each computes its launcher's start for itself; at the turn of a minute a millisecond must not part them."""
    hertz = os.sysconf("SC_CLK_TCK")

    def booted():
        return time.time() - float(Path("/proc/uptime").read_text().split()[0])

    seen = [booted() for _ in range(1000)]
    middle = (min(seen) + max(seen)) / 2
    ticks = round((60 - middle % 60) * hertz)  # a launcher that started at the turn of a minute
    ids = set()
    for near in range(ticks - 2, ticks + 3):
        monkeypatch.setattr(launch, "process_stat", lambda _, near=near: ProcessStat("S", 1, near, 0))
        ids.add(frozenset(read_launch({}).job_id for _ in range(1000)))
    assert all(len(of_one_start) == 1 for of_one_start in ids)
