"""Tests of the checks before a signal: a process that is another one, another user's, blocked or hidden is refused."""

import os
import signal
import sys

import pytest

from tests.agent.acts.jobs import LaunchedJob, ask_for, assert_refused, request_for, still_lives
from zmon.agent.acts import processes
from zmon.agent.acts.processes import HeldProcess, Refused, hold_rank, protected_pids
from zmon.agent.acts.target import RankTarget
from zmon.process import process_stat

UID = os.geteuid()
START_TICKS = 5000  # when the process of `fake_proc` started, in clock ticks since boot


def started(process):
    """Return the start of a process in clock ticks since boot."""
    return process_stat(process.pid).start_ticks


def rank_of(process, **changes):
    """Return rank 0 of a job as its box describes it: the process holds the lock of the box."""
    values = {
        "run_uid": "aa", "job_id": "job", "rank": 0, "owner": UID, "holder": process.pid,
        "start_ticks": started(process), "pid": process.pid, "launcher": (0, 0), "max_restarts": 3, "world_size": 1,
    }  # fmt: skip
    return RankTarget(**{**values, **changes})


def fake_proc(folder, process, states=("S",), tracer=0, uids=(UID,) * 4, environ=b"RANK=0\0"):
    """Write a /proc with this process, which started at START_TICKS; `states` are those of its threads. Return it."""
    real = folder / str(process.pid)
    for number, state in enumerate(states):
        task = real / "task" / str(process.pid + number)
        task.mkdir(parents=True)
        words = "\t".join(map(str, uids))
        (task / "status").write_text(f"Name:\tx\nState:\t{state} (x)\nTracerPid:\t{tracer}\nUid:\t{words}\nGid:\t0\n")
        (task / "wchan").write_text("nfs_wait_bit_killable")
    fields = f"{states[0]} 1 7 7 0 -1 4 1 0 2 0 300 40 0 0 20 0 9 0 {START_TICKS} 9 90" + " 0" * 28
    (real / "stat").write_text(f"{process.pid} (python) {fields}\n")
    (real / "environ").write_bytes(environ)
    return folder


def held_as_rank(process, proc, sleep=lambda seconds: None):
    """Return a process, opened as that of rank 0."""
    return HeldProcess(process.pid, "rank 0", proc, sleep)


# What /proc says about a process of this user, when the rank started (None: unknown), and why nothing is done to it.
REFUSALS = {
    "waits for a disk": (
        {"states": ("D",)},
        START_TICKS,
        r"state D\) in nfs_wait_bit_killable, where a kill does nothing",
    ),
    "waits for a disk once it is stopped": ({"states": ("S", "S", "D")}, START_TICKS, "uninterruptible sleep"),
    "a debugger": ({"states": ("t",)}, START_TICKS, "a debugger holds"),
    "a debugger once it is stopped": ({"states": ("S", "t")}, START_TICKS, "a debugger holds"),
    "a tracer": ({"tracer": 77}, START_TICKS, "a debugger holds"),
    "set-user-ID": (
        {"uids": (UID, 0 if UID else 5, UID, UID)},
        START_TICKS,
        "runs as uid",
    ),  # the effective uid differs
    "another user": ({"uids": (UID + 1,) * 4}, START_TICKS, f"runs as uid {UID + 1}, and the box is of uid {UID}"),
    "started later": ({}, START_TICKS + 1, "it started at another time"),
    "unknown start": ({}, None, "it started at another time"),
}


@pytest.mark.parametrize(("options", "start_ticks", "reason"), REFUSALS.values(), ids=REFUSALS)
def test_process_that_a_signal_may_not_end_or_that_is_another_one_is_refused(
    sleeper, tmp_path, options, start_ticks, reason
):
    with held_as_rank(sleeper, fake_proc(tmp_path, sleeper, **options)) as held, pytest.raises(Refused, match=reason):
        held.check(UID, start_ticks)


@pytest.mark.parametrize("state", "RSTI")
def test_process_in_another_state_is_accepted(sleeper, tmp_path, state):
    with held_as_rank(sleeper, fake_proc(tmp_path, sleeper, states=(state,))) as held:
        assert held.check(UID, START_TICKS).stat.state == state


def test_process_that_has_left_state_d_at_the_second_look_is_accepted(sleeper, tmp_path):
    proc = fake_proc(tmp_path, sleeper, states=("D",))
    status = proc / str(sleeper.pid) / "task" / str(sleeper.pid) / "status"
    with held_as_rank(sleeper, proc, lambda _: status.write_text(status.read_text().replace("\tD", "\tR"))) as held:
        held.check(UID, START_TICKS)


def test_frozen_process_is_refused_with_its_reason(sleeper, tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "is_frozen", lambda folder, state: state == "D")
    reason = r"rank 0 is frozen by its control group \(docker pause\)"
    proc = fake_proc(tmp_path, sleeper, states=("D",))
    with held_as_rank(sleeper, proc) as held, pytest.raises(Refused, match=reason):
        held.check(UID, START_TICKS)


def test_hidden_process_is_refused(sleeper, tmp_path):
    with held_as_rank(sleeper, tmp_path / "empty") as held:
        with pytest.raises(Refused, match="is hidden from the agent"):
            held.check(UID, START_TICKS)
        with pytest.raises(Refused, match="it is not known whether the job has another healer"):
            held.check_healer()


def test_process_without_an_environment_is_refused(sleeper, tmp_path):
    proc = fake_proc(tmp_path, sleeper, environ=b"")
    with held_as_rank(sleeper, proc) as held, pytest.raises(Refused, match="has no environment"):
        held.check_healer()


HEALERS = {
    "TORCHFT_LIGHTHOUSE": "torchft",
    "FT_LAUNCHER_IPC_SOCKET": "NVIDIA's resiliency extension",
    "FT_RANK_MONITOR_IPC_SOCKET": "NVIDIA's resiliency extension",
    "DLROVER_MASTER_ADDR": "DLRover",
    "HOROVOD_ELASTIC": "Horovod Elastic",
}


@pytest.mark.parametrize(("variable", "name"), HEALERS.items())
def test_rank_of_another_healer_is_refused(sleeper, tmp_path, variable, name):
    proc = fake_proc(tmp_path, sleeper, environ=f"RANK=0\0{variable}=1\0".encode())
    reason = rf"^{name}.* heals this job: zmon only observes it$"
    with held_as_rank(sleeper, proc) as held, pytest.raises(Refused, match=reason):
        held.check_healer()


@pytest.mark.parametrize("variable", ["HOROVOD_ELASTIC_TIMEOUT", "MY_TORCHFT_LIGHTHOUSE", "PATH"])
def test_variable_that_only_resembles_one_of_a_healer_is_no_reason(sleeper, tmp_path, variable):
    proc = fake_proc(tmp_path, sleeper, environ=f"RANK=0\0{variable}=1\0".encode())
    with held_as_rank(sleeper, proc) as held:
        held.check_healer()


def test_agent_its_ancestors_and_the_first_process_are_never_opened():
    for pid in (0, 1, os.getpid(), os.getppid()):
        assert pid in protected_pids()
        with pytest.raises(Refused, match="is the first one, the agent itself, or one that the agent runs under"):
            HeldProcess(pid, "rank 0")


def test_zombie_has_ended(sleeper):
    rank = rank_of(sleeper)
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    with pytest.raises(Refused, match=r"rank 0 of job of uid .* has ended"):
        hold_rank(rank, lambda: rank)


RELEASED = "does not hold the lock of its box any more"


# The pid that holds the lock of the box, before and after the process was opened; "pid" is that of the process.
@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        pytest.param(None, None, "has ended", id="nobody"),
        pytest.param(0, 0, r"in another PID namespace: run the agent in that of the host \(hostPID\)", id="hidden"),
        pytest.param("pid", None, RELEASED, id="nobody any more"),
        pytest.param("pid", 0, RELEASED, id="hidden by now"),
        pytest.param("pid", 12345678, RELEASED, id="another process by now"),
    ],
)
def test_lock_decides_which_process_a_rank_is(sleeper, before, after, reason):
    first, second = (rank_of(sleeper, holder=sleeper.pid if each == "pid" else each) for each in (before, after))
    with pytest.raises(Refused, match=reason):
        hold_rank(first, lambda: second)
    assert still_lives(sleeper.pid)


def test_reused_number_is_refused(sleeper):
    rank = rank_of(sleeper, start_ticks=started(sleeper) - 100)  # the rank had this number before
    with pytest.raises(Refused, match="it started at another time"):
        hold_rank(rank, lambda: rank)


def test_signal_reaches_the_process_that_was_opened(sleeper):
    rank = rank_of(sleeper)
    with hold_rank(rank, lambda: rank) as held:
        held.send(signal.SIGKILL)
        assert held.ended(5.0)
        sleeper.wait()
        with pytest.raises(Refused, match="failed: No such process"):
            held.send(signal.SIGKILL)


BLOCKED = """
import os, sys, zmon.probe
assert zmon.probe.attach_box()
os.mkfifo(sys.argv[1])
print("rank", os.environ["RANK"], os.getpid(), flush=True)
os.posix_spawn("/bin/true", ["true"], {}, file_actions=[(os.POSIX_SPAWN_OPEN, 0, sys.argv[1], os.O_RDONLY, 0)])
"""


@pytest.mark.e2e
async def test_rank_in_uninterruptible_sleep_is_refused(tmp_path, acting):
    """It waits for a child that vfork(2) has made, and that waits for the other end of a FIFO."""
    fifo = tmp_path / "fifo"
    job = LaunchedJob(tmp_path / "boxes", command=[sys.executable, "-c", BLOCKED, str(fifo)], RANK="0")
    try:
        async with acting() as client:
            answer = await ask_for(client, await request_for(client))
        assert_refused(answer, "in uninterruptible sleep (state D)", job.pids[0])
    finally:
        os.close(os.open(fifo, os.O_RDWR | os.O_NONBLOCK))
        job.end()
