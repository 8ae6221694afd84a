"""Which job, attempt and rank is this? Told by the launcher, refused where nobody can agree on it."""

import os
import subprocess
import sys
import textwrap
import time
from datetime import datetime
from pathlib import Path

import pytest

from zmon.errors import UsageError
from zmon.probe import launch
from zmon.probe.launch import check_job_id, read_launch
from zmon.process import ProcessStat, process_stat

TORCHRUN = {
    "RANK": "5", "LOCAL_RANK": "1", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4", "TORCHELASTIC_RUN_ID": "dlrm-17",
    "TORCHELASTIC_RESTART_COUNT": "2", "TORCHELASTIC_MAX_RESTARTS": "3",
}  # fmt: skip
SLURM = {
    "SLURM_JOB_ID": "991", "SLURM_PROCID": "6", "SLURM_LOCALID": "2", "SLURM_NTASKS": "8", "SLURM_JOB_NUM_NODES": "2",
}  # fmt: skip
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_SIZE": "8", "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "4", "ZMON_JOB_ID": "mpi",
}  # fmt: skip
HYDRA = {"PMI_RANK": "5", "PMI_SIZE": "8", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "4", "ZMON_JOB_ID": "mpi"}


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


@pytest.mark.parametrize("mpirun", [OPEN_MPI, HYDRA], ids=["Open MPI", "MPICH"])
@pytest.mark.parametrize("around", [{}, {**SLURM, "SLURM_PROCID": "0", "SLURM_NTASKS": "2"}], ids=["alone", "in Slurm"])
def test_mpirun_tells_everything_whatever_slurm_started(mpirun, around):
    """In a Slurm allocation mpirun starts its ranks below one task of srun on each node."""
    found = read_launch({**around, **mpirun})
    assert (found.rank, found.local_rank, found.world_size, found.local_world_size) == (5, 1, 8, 4)
    assert found.max_restarts == -1


def test_rank_and_world_size_of_the_process_group_win():
    """torch.multiprocessing.spawn: the environment, if it tells anything, tells of the parent."""
    env = {"ZMON_JOB_ID": "x"}
    found = read_launch(env, rank=3, world_size=8)
    assert (found.rank, found.local_rank, found.world_size, found.local_world_size) == (3, 3, 8, 0)
    found = read_launch({**env, "MASTER_ADDR": "localhost"}, rank=3, world_size=8)
    assert (found.local_rank, found.one_host) == (3, True)
    task = {**SLURM, "SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_LOCALID": "0"}  # one task on each of two nodes
    found = read_launch(task, rank=5, world_size=8)
    assert (found.rank, found.local_rank, found.local_world_size) == (5, 1, 4)
    found = read_launch({**OPEN_MPI, "OMPI_COMM_WORLD_LOCAL_SIZE": "1"}, rank=9, world_size=16)
    assert (found.rank, found.local_rank, found.local_world_size) == (9, 9, 0)


def test_process_group_that_agrees_with_the_launcher_changes_nothing():
    for env, rank in ((TORCHRUN, 5), (SLURM, 6), (OPEN_MPI, 5)):
        assert read_launch(env, rank=rank, world_size=8, init_method="env://") == read_launch(env)


@pytest.mark.parametrize("host", ["localhost:29500", "127.0.0.1:29500", "[::1]:29500", "localhost:1?x=y"])
def test_ranks_that_meet_on_this_host_are_all_on_it(host):
    found = read_launch({}, rank=1, world_size=4, init_method=f"tcp://{host}")
    assert found.one_host
    assert found.job_id


def test_meeting_elsewhere_wins_over_a_local_master_address():
    env = {"MASTER_ADDR": "localhost", "ZMON_JOB_ID": "x"}
    assert not read_launch(env, rank=1, world_size=4, init_method="tcp://10.0.0.7:29500").one_host
    with pytest.raises(UsageError, match="no id"):
        read_launch({}, rank=1, world_size=4, init_method="tcp://10.0.0.7:29500")


def test_ranks_that_meet_in_a_file_get_an_id_but_who_shares_the_host_is_unknown():
    found = read_launch({}, rank=1, world_size=4, init_method="file:///shared/meeting")
    assert (found.local_world_size, found.one_host) == (0, False)
    assert found.job_id


@pytest.mark.parametrize("start", [["train.py"], ["-m", "train"], ["-m", "package"]], ids=" ".join)
def test_spawned_ranks_agree_on_an_id_with_the_name_of_the_users_script(tmp_path, start):
    script = """
        import multiprocessing, os
        from zmon.probe.launch import read_launch

        def rank(number):
            found = read_launch({}, rank=number, world_size=2, init_method="tcp://localhost:1")
            os.write(1, f"{found.job_id} {found.launcher_pid}\\n".encode())  # whole, whoever else writes

        def main():
            ranks = [multiprocessing.get_context("spawn").Process(target=rank, args=(n,)) for n in range(2)]
            for process in ranks:
                process.start()
            for process in ranks:
                process.join()

        if __name__ == "__main__":
            main()
    """
    (tmp_path / "train.py").write_text(textwrap.dedent(script))
    (tmp_path / "package").mkdir()
    (tmp_path / "package/__main__.py").write_text("import train\nif __name__ == '__main__':\n    train.main()\n")
    done = subprocess.run(
        [sys.executable, *start], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )  # fmt: skip
    first, second = done.stdout.splitlines()
    assert first == second
    assert first.startswith("package-" if "package" in start else "train-")


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
        monkeypatch.setattr(launch, "process_stat", lambda _, near=near: ProcessStat("S", 1, near, 0, 1, 0.0, 0))
        ids.add(frozenset(read_launch({}).job_id for _ in range(1000)))
    assert all(len(of_one_start) == 1 for of_one_start in ids)
