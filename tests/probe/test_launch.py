"""Tests of job id, attempt and rank, which come from the launcher or from the process group."""

import multiprocessing
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
SLURM_BATCH = {  # the script of sbatch, and the shell of salloc
    "SLURM_JOB_ID": "991", "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NTASKS": "8", "SLURM_JOB_NUM_NODES": "2",
}  # fmt: skip
SLURM = {**SLURM_BATCH, "SLURM_PROCID": "6", "SLURM_LOCALID": "2", "SLURM_STEP_NUM_TASKS": "8"}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_SIZE": "8", "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "4", "ZMON_JOB_ID": "mpi",
}  # fmt: skip
HYDRA = {"PMI_RANK": "5", "PMI_SIZE": "8", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "4", "ZMON_JOB_ID": "mpi"}
BY_HAND = {"RANK": "1", "WORLD_SIZE": "2", "ZMON_JOB_ID": "x"}
ONE_TASK_PER_NODE = {**SLURM, "SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2", "SLURM_LOCALID": "0"}  # two nodes
# The variables around mpirun, if a task of srun starts it on each node.
SLURM_AROUND = {**SLURM, "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "2"}
STANDALONE = "21eaa884-67b9-44be-9e4e-74a94b691946"  # the run id that torchrun --standalone makes


def place(rank, local_rank, world_size, local_world_size):
    """Return these fields by name; a local world size of 0 is unknown."""
    return {"rank": rank, "local_rank": local_rank, "world_size": world_size, "local_world_size": local_world_size}


LAUNCHES = {  # the environment of a rank, the arguments of its process group → what is read
    "torchrun": (
        TORCHRUN, {},
        {"job_id": "dlrm-17", "attempt": 2, "restart_count": 2, "max_restarts": 3, "one_host": False}
        | place(5, 1, 8, 4),
    ),
    "torchrun on one node": ({**TORCHRUN, "LOCAL_WORLD_SIZE": "8"}, {}, {"one_host": True}),
    "Slurm": (
        SLURM, {},
        {"job_id": "slurm-991", "attempt": 0, "max_restarts": None, "one_host": False} | place(6, 2, 8, 4),
    ),
    "Slurm on one node": ({**SLURM, "SLURM_JOB_NUM_NODES": "1"}, {}, {"one_host": True}),
    "step of Slurm on one of two nodes": ({**SLURM, "SLURM_STEP_NUM_NODES": "1"}, {}, {"one_host": True}),
    "a step of Slurm for each of four nodes": (
        {**BY_HAND, "WORLD_SIZE": "4", "SLURM_JOB_NUM_NODES": "4", "SLURM_STEP_NUM_NODES": "1",
         "SLURM_STEP_NUM_TASKS": "1"},
        {}, {"one_host": False, "local_world_size": 1},
    ),
    "Slurm without srun: a single rank": (SLURM_BATCH, {}, {"job_id": "slurm-991"} | place(0, 0, 1, 1)),
    "Open MPI": (OPEN_MPI, {}, {"max_restarts": None} | place(5, 1, 8, 4)),
    "Open MPI in Slurm": ({**SLURM_AROUND, **OPEN_MPI}, {}, {"max_restarts": None} | place(5, 1, 8, 4)),
    "MPICH": (HYDRA, {}, {"max_restarts": None} | place(5, 1, 8, 4)),
    "MPICH in Slurm": ({**SLURM_AROUND, **HYDRA}, {}, {"max_restarts": None} | place(5, 1, 8, 4)),
    "no launcher: a single rank": ({}, {}, {"attempt": 0, "max_restarts": None, "one_host": True} | place(0, 0, 1, 1)),
    "by hand: unknown whether on one node": (BY_HAND, {}, {"one_host": False}),
    "by hand, with a local master": ({**BY_HAND, "MASTER_ADDR": "127.0.0.1"}, {}, {"one_host": True}),
    # The environment of a rank started by torch.multiprocessing.spawn describes its parent, if anything.
    "spawned": ({"ZMON_JOB_ID": "x"}, {"rank": 3, "world_size": 8}, place(3, 3, 8, 0)),
    "spawned, with a local master": (
        {"ZMON_JOB_ID": "x", "MASTER_ADDR": "localhost"}, {"rank": 3, "world_size": 8},
        {"local_rank": 3, "one_host": True},
    ),
    "by hand, with another address that is local": ({**BY_HAND, "MASTER_ADDR": "127.0.0.2"}, {}, {"one_host": True}),
    "by hand, with the address of an interface: it may be the first of several nodes": (
        {**BY_HAND, "MASTER_ADDR": "10.0.0.7"}, {}, {"one_host": False},
    ),
    "torchrun on one node that has a name": (
        {**TORCHRUN, "LOCAL_WORLD_SIZE": "8", "MASTER_ADDR": "node-a"}, {}, {"one_host": True},
    ),
    "torchrun twice on one host": ({**TORCHRUN, "MASTER_ADDR": "127.0.0.1"}, {}, {"one_host": False}),
    "spawned by a task of Slurm": (ONE_TASK_PER_NODE, {"rank": 5, "world_size": 8}, place(5, 1, 8, 4)),
    "spawned by a task of mpirun": (
        {**OPEN_MPI, "OMPI_COMM_WORLD_LOCAL_SIZE": "1"}, {"rank": 9, "world_size": 16}, place(9, 9, 16, 0)
    ),
    "init method before a local master": (
        BY_HAND | {"MASTER_ADDR": "localhost"},
        {"rank": 1, "world_size": 4, "init_method": "tcp://10.0.0.7:29500"}, {"one_host": False},
    ),
    "init method is a file: ranks per node unknown": (
        {}, {"rank": 1, "world_size": 4, "init_method": "file:///shared/meeting"},
        {"local_world_size": 0, "one_host": False},
    ),
    "attempt that is set": ({**TORCHRUN, "ZMON_ATTEMPT": "9"}, {}, {"attempt": 9, "restart_count": 2}),
    # A variable from a label that a pod does not have counts as unset.
    "attempt that is empty": ({**TORCHRUN, "ZMON_ATTEMPT": ""}, {}, {"attempt": 2}),
    "job id: the argument first": ({**SLURM, **TORCHRUN, "ZMON_JOB_ID": "mine"}, {"job_id": "a"}, {"job_id": "a"}),
    "job id: then that of zmon": ({**SLURM, **TORCHRUN, "ZMON_JOB_ID": "mine"}, {}, {"job_id": "mine"}),
    "job id: then that of Slurm": ({**SLURM, **TORCHRUN}, {}, {"job_id": "slurm-991"}),
    # Nodes can agree on nothing else.
    "job id: a random run id, on several nodes only": (
        {**TORCHRUN, "TORCHELASTIC_RUN_ID": STANDALONE}, {}, {"job_id": STANDALONE},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("env", "arguments", "fields"), LAUNCHES.values(), ids=LAUNCHES)
def test_launch_environment_is_read(env, arguments, fields):
    result = read_launch(env, **arguments)
    assert {name: getattr(result, name) for name in fields} == fields
    assert result.job_id
    parent = process_stat(os.getppid())
    assert (result.launcher_pid, result.launcher_start) == (os.getppid(), parent.start_ticks if parent else 0)


@pytest.mark.parametrize(("env", "rank"), [(TORCHRUN, 5), (SLURM, 6), (OPEN_MPI, 5)], ids=["torchrun", "Slurm", "MPI"])
def test_process_group_equal_to_the_launcher_changes_no_field(env, rank):
    assert read_launch(env, rank=rank, world_size=8, init_method="env://") == read_launch(env)


@pytest.mark.parametrize("host", ["localhost:29500", "127.0.0.1:29500", "[::1]:29500", "localhost:1?x=y"])
def test_ranks_share_a_host_if_the_init_method_is_a_local_address(host):
    result = read_launch({}, rank=1, world_size=4, init_method=f"tcp://{host}")
    assert result.one_host
    assert result.job_id


for_each_start = pytest.mark.parametrize("start", [["train.py"], ["-m", "train"], ["-m", "package"]], ids=" ".join)


def run_program(folder, script, *arguments):
    """Run Python in a folder with the script as `train.py` and as a package; return the lines that it prints."""
    (folder / "train.py").write_text(textwrap.dedent(script))
    (folder / "package").mkdir()
    (folder / "package/__main__.py").write_text("import train\nif __name__ == '__main__':\n    train.main()\n")
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.splitlines()


@for_each_start
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
    first, second = run_program(tmp_path, script, *start)
    assert first == second
    assert first.startswith("package-" if "package" in start else "train-")


@for_each_start
@pytest.mark.parametrize("how", ["same", "different", "fork"])
def test_ranks_that_the_first_rank_starts_by_its_own_command_are_of_its_launch(tmp_path, start, how):
    """A rank with another command, or a fork, may be a launch of its own: a program may start several in turn."""
    script = """
        import os, subprocess, sys
        from zmon.probe.launch import read_launch

        meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500", "WORLD_SIZE": "2"}

        def main():
            os.environ.update(meeting)
            rank = int(os.environ.get("LOCAL_RANK", "0"))
            os.write(1, f"{read_launch(os.environ, rank=rank, world_size=2).launch_id}\\n".encode())
            how, *command = sys.argv[1:]
            if rank == 0 and how == "fork":
                os.environ["LOCAL_RANK"] = "1"
                os.wait() if os.fork() else main()
            elif rank == 0:
                arguments = sys.argv[1:] if how == "same" else ["other", *sys.argv[2:]]
                env = {**os.environ, "LOCAL_RANK": "1"}
                subprocess.run([sys.executable, *command, *arguments], env=env, check=True)

        if __name__ == "__main__":
            main()
    """
    first, second = run_program(tmp_path, script, *start, how, *start)
    assert (first == second) == (how == "same")


@pytest.mark.parametrize("run_id", ["none", STANDALONE])
def test_job_id_on_a_single_node_is_made_from_script_and_launch(monkeypatch, run_id):
    monkeypatch.setattr("sys.argv", ["/home/ann/train dlrm.py"])
    result = read_launch({**TORCHRUN, "TORCHELASTIC_RUN_ID": run_id, "LOCAL_WORLD_SIZE": "8"})
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


NO_ID = {**TORCHRUN, "TORCHELASTIC_RUN_ID": "none"}


@pytest.mark.parametrize(
    ("env", "arguments", "part"),
    [
        (NO_ID, {}, "ZMON_JOB_ID"),
        ({}, {"rank": 1, "world_size": 4, "init_method": "tcp://10.0.0.7:29500"}, "no id"),
        ({**TORCHRUN, "RANK": "two"}, {}, "RANK='two'"),
    ],
    ids=["several nodes without an id", "several nodes by the init method", "invalid number"],
)
def test_launch_that_cannot_be_read_is_refused_in_a_line(env, arguments, part):
    with pytest.raises(UsageError) as caught:
        read_launch(env, **arguments)
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)


# With "." or "..", a box would be outside the box directory, and no agent would read it.
@pytest.mark.parametrize("job_id", ["a/b", "", "a b", "é", "x" * 65, "a\n", ".", ".."])
def test_invalid_job_id_is_refused(job_id):
    with pytest.raises(UsageError, match="not usable"):
        check_job_id(job_id)


@pytest.mark.parametrize("job_id", ["x" * 64, "A.b-c_9", "17"])
def test_valid_job_id_is_unchanged(job_id):
    assert check_job_id(job_id) == job_id


@pytest.mark.parametrize(("value", "number"), [("65537", 65537), ("", 0), ("x", 0), ("-1", 0), ("1.5", 0)])
def test_number_of_the_zmon_watch_around_the_job_is_read_and_0_if_invalid(value, number):
    assert read_launch({"ZMON_WATCH": value}).watch == number


def spawned(queue, leave, world_size):
    """Tell the queue whether all ranks are on one host, and live until `leave` is set."""
    launch = read_launch({"MASTER_ADDR": "node-a", "ZMON_JOB_ID": "x"}, rank=0, world_size=world_size)
    queue.put(launch.one_host)
    leave.wait(30)


@pytest.mark.parametrize(
    ("start", "world_size", "one_host"), [("spawn", 2, True), ("spawn", 4, False), ("fork", 2, False)]
)
def test_ranks_are_on_one_host_if_one_process_has_spawned_all_of_them(start, world_size, one_host):
    """The address, a name, does not tell where the ranks are. Two ranks are spawned, so 4 ranks are on two nodes."""
    context = multiprocessing.get_context(start)
    queue, leave = context.Queue(), context.Event()
    ranks = [context.Process(target=spawned, args=(queue, leave, world_size)) for _ in range(2)]
    for rank in ranks:
        rank.start()
    answers = [queue.get(timeout=30) for _ in ranks]
    leave.set()
    for rank in ranks:
        rank.join(30)
    assert answers[1] is one_host  # the first rank may answer before the other rank has started
