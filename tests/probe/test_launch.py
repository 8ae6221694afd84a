"""Tests of job id, attempt and rank, which come from the launcher or from the process group.

A job id on which the ranks cannot agree is refused.
"""

import os
import subprocess
import sys
import textwrap

import pytest

from zmon.errors import UsageError
from zmon.probe.launch import check_job_id, read_launch
from zmon.process import process_stat

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


def test_torchrun_provides_all_fields():
    result = read_launch(TORCHRUN)
    assert (result.job_id, result.attempt) == ("dlrm-17", 2)
    assert (result.rank, result.local_rank, result.world_size, result.local_world_size) == (5, 1, 8, 4)
    assert (result.restart_count, result.max_restarts) == (2, 3)


def test_launcher_is_the_parent_process():
    result = read_launch(TORCHRUN)
    parent = process_stat(os.getppid())
    assert (result.launcher_pid, result.launcher_start_ticks) == (os.getppid(), parent.start_ticks if parent else 0)


def test_slurm_provides_all_fields_except_restarts():
    result = read_launch(SLURM)
    assert (result.job_id, result.attempt, result.max_restarts) == ("slurm-991", 0, -1)
    assert (result.rank, result.local_rank, result.world_size) == (6, 2, 8)
    assert not result.one_host
    assert read_launch({**SLURM, "SLURM_JOB_NUM_NODES": "1"}).one_host


@pytest.mark.parametrize("mpirun", [OPEN_MPI, HYDRA], ids=["Open MPI", "MPICH"])
@pytest.mark.parametrize("around", [{}, {**SLURM, "SLURM_PROCID": "0", "SLURM_NTASKS": "2"}], ids=["alone", "in Slurm"])
def test_mpirun_takes_precedence_over_slurm(mpirun, around):
    """Inside a Slurm allocation, mpirun starts its ranks below one task of srun on each node."""
    result = read_launch({**around, **mpirun})
    assert (result.rank, result.local_rank, result.world_size, result.local_world_size) == (5, 1, 8, 4)
    assert result.max_restarts == -1


def test_rank_and_world_size_of_the_process_group_take_precedence():
    """The environment of a rank started by torch.multiprocessing.spawn describes its parent, if anything."""
    env = {"ZMON_JOB_ID": "x"}
    result = read_launch(env, rank=3, world_size=8)
    assert (result.rank, result.local_rank, result.world_size, result.local_world_size) == (3, 3, 8, 0)
    result = read_launch({**env, "MASTER_ADDR": "localhost"}, rank=3, world_size=8)
    assert (result.local_rank, result.one_host) == (3, True)
    task = {**SLURM, "SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_LOCALID": "0"}  # one task on each of two nodes
    result = read_launch(task, rank=5, world_size=8)
    assert (result.rank, result.local_rank, result.local_world_size) == (5, 1, 4)
    result = read_launch({**OPEN_MPI, "OMPI_COMM_WORLD_LOCAL_SIZE": "1"}, rank=9, world_size=16)
    assert (result.rank, result.local_rank, result.local_world_size) == (9, 9, 0)


def test_process_group_equal_to_the_launcher_changes_no_field():
    for env, rank in ((TORCHRUN, 5), (SLURM, 6), (OPEN_MPI, 5)):
        assert read_launch(env, rank=rank, world_size=8, init_method="env://") == read_launch(env)


@pytest.mark.parametrize("host", ["localhost:29500", "127.0.0.1:29500", "[::1]:29500", "localhost:1?x=y"])
def test_ranks_share_a_host_if_the_init_method_is_a_local_address(host):
    result = read_launch({}, rank=1, world_size=4, init_method=f"tcp://{host}")
    assert result.one_host
    assert result.job_id


def test_init_method_takes_precedence_over_a_local_master_address():
    env = {"MASTER_ADDR": "localhost", "ZMON_JOB_ID": "x"}
    assert not read_launch(env, rank=1, world_size=4, init_method="tcp://10.0.0.7:29500").one_host
    with pytest.raises(UsageError, match="no id"):
        read_launch({}, rank=1, world_size=4, init_method="tcp://10.0.0.7:29500")


def test_ranks_per_host_are_unknown_if_the_init_method_is_a_file():
    result = read_launch({}, rank=1, world_size=4, init_method="file:///shared/meeting")
    assert (result.local_world_size, result.one_host) == (0, False)
    assert result.job_id


@pytest.mark.parametrize("start", [["train.py"], ["-m", "train"], ["-m", "package"]], ids=" ".join)
def test_spawned_ranks_agree_on_a_job_id_from_the_script_name(tmp_path, start):
    script = """
        import multiprocessing, os
        from zmon.probe.launch import read_launch

        def rank(number):
            result = read_launch({}, rank=number, world_size=2, init_method="tcp://localhost:1")
            os.write(1, f"{result.job_id} {result.launcher_pid}\\n".encode())  # in one write

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


def test_ranks_share_a_host_only_if_that_is_certain():
    assert read_launch({}).one_host
    assert read_launch({**TORCHRUN, "LOCAL_WORLD_SIZE": "8"}).one_host
    assert not read_launch(TORCHRUN).one_host
    by_hand = {"RANK": "1", "WORLD_SIZE": "2", "ZMON_JOB_ID": "x"}
    assert not read_launch(by_hand).one_host
    assert read_launch({**by_hand, "MASTER_ADDR": "127.0.0.1"}).one_host


def test_script_without_a_launcher_is_a_single_rank_without_restarts():
    result = read_launch({})
    assert (result.rank, result.local_rank, result.world_size, result.local_world_size) == (0, 0, 1, 1)
    assert (result.attempt, result.max_restarts) == (0, -1)


def test_job_id_is_taken_from_the_first_available_source():
    env = {**SLURM, **TORCHRUN, "ZMON_JOB_ID": "mine"}
    assert read_launch(env, "explicit").job_id == "explicit"
    assert read_launch(env).job_id == "mine"
    del env["ZMON_JOB_ID"]
    assert read_launch(env).job_id == "slurm-991"
    del env["SLURM_JOB_ID"]
    assert read_launch(env).job_id == "dlrm-17"


def test_explicit_attempt_takes_precedence_over_the_restart_count():
    result = read_launch({**TORCHRUN, "ZMON_ATTEMPT": "9"})
    assert (result.attempt, result.restart_count) == (9, 2)


def test_variable_from_a_label_that_a_pod_does_not_have_counts_as_unset():
    assert read_launch({**TORCHRUN, "ZMON_ATTEMPT": ""}).attempt == 2


def test_job_id_on_a_single_node_is_made_from_script_and_launch(monkeypatch):
    monkeypatch.setattr("sys.argv", ["/home/ann/train dlrm.py"])
    result = read_launch({**TORCHRUN, "TORCHELASTIC_RUN_ID": "none", "LOCAL_WORLD_SIZE": "8"})
    assert result.job_id == f"train_dlrm-{result.launch_id[:8]}"
    monkeypatch.setattr("sys.argv", ["/home/ann/trainer/__main__.py"])
    assert read_launch({}).job_id.startswith("trainer-")


def test_program_is_the_same_for_equal_commands_only(monkeypatch):
    commands = [["/a/train.py", "--lr", "1"], ["/a/train.py", "--lr", "2"], ["/b/train.py", "--lr", "1"], []]
    programs = []
    for command in (*commands, *commands):
        monkeypatch.setattr("sys.argv", command)
        programs.append(read_launch({}).program)
    assert programs[:4] == programs[4:]
    assert len(set(programs)) == 4
    assert programs[0].rpartition("-")[0] == programs[1].rpartition("-")[0]


def test_several_nodes_without_a_job_id_are_refused():
    with pytest.raises(UsageError) as caught:
        read_launch({**TORCHRUN, "TORCHELASTIC_RUN_ID": "none"})
    assert "ZMON_JOB_ID" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("job_id", ["a/b", "", "a b", "é", "x" * 65, "a\n"])
def test_invalid_job_id_is_refused(job_id):
    with pytest.raises(UsageError, match="not usable"):
        check_job_id(job_id)


@pytest.mark.parametrize("job_id", [".", ".."])
def test_job_id_that_names_a_directory_above_is_refused(job_id):
    """A box of such a job would be outside the box directory, and no agent would read the box."""
    with pytest.raises(UsageError, match="not usable"):
        check_job_id(job_id)


@pytest.mark.parametrize("job_id", ["x" * 64, "A.b-c_9", "17"])
def test_valid_job_id_is_unchanged(job_id):
    assert check_job_id(job_id) == job_id


def test_invalid_number_is_reported_with_its_variable():
    with pytest.raises(UsageError, match="RANK='two'"):
        read_launch({**TORCHRUN, "RANK": "two"})
