"""Tests of acts about launchers: which process is one, and how it ends with its ranks."""

import asyncio
import os
import signal
import sys
import time

import pytest

from tests.agent.acts.jobs import (
    LAUNCHER,
    RANK,
    ask_for,
    assert_refused,
    entries,
    events,
    finishes,
    is_gone,
    request_for,
    still_lives,
)
from zmon.act_stops import ALL, stop
from zmon.schema.act import ACTED, END_JOB, STOP_RESTARTS


async def test_launcher_and_its_ranks_end_by_sigterm(start_job, acting, tmp_path):
    job = start_job(ranks=2)
    async with acting() as client:
        answer = await ask_for(client, await request_for(client, END_JOB, grace_seconds=1.0))
        assert answer.result == ACTED
        assert f"SIGTERM to process {job.launcher.pid}, the launcher of rank 0: sent" in answer.reason
        assert await finishes(tmp_path)
    assert job.launcher.wait(10) == -signal.SIGTERM
    assert job.rank_ended(0)
    assert job.rank_ended(1)  # this launcher leaves its ranks, so they are killed after the grace
    assert events(tmp_path)[:2] == ["announced", "done"]
    signals = [entry.line for entry in entries(tmp_path) if entry.event == "signal"]
    assert sorted(signals) == sorted(
        f"SIGKILL to process {pid}, rank {rank} of job of uid {os.getuid()}" for rank, pid in job.pids.items()
    )


async def test_stubborn_launcher_is_killed_after_the_grace(start_job, acting, tmp_path):
    job = start_job(ranks=2, STUBBORN="1")
    async with acting() as client:
        begin = time.monotonic()
        answer = await ask_for(client, await request_for(client, STOP_RESTARTS, grace_seconds=0.0))
        assert time.monotonic() - begin < 5.0
        assert "SIGKILL follows in 1 s" in answer.reason
        assert await finishes(tmp_path)
        again = await ask_for(client, await request_for(client, END_JOB, rank=1))
        assert (again.repeated, again.reason) == (True, answer.reason)
    assert job.launcher.wait(10) == -signal.SIGKILL
    assert is_gone(job.pids[0])
    assert is_gone(job.pids[1])


async def cut_off_by_a_person(tmp_path):
    """Stop all acts as a person does, and check that the act under way ends with the reason."""
    stop(tmp_path / "data", ALL, "no", "ann")
    assert await finishes(tmp_path)
    assert entries(tmp_path)[-1].line.startswith("no further signal is sent: acts are stopped by ann: no")


async def cut_off_by_nobody(tmp_path):
    """The end of the agent follows."""


@pytest.mark.parametrize(
    ("cut_off", "last_event"),
    [
        pytest.param(cut_off_by_a_person, "finished", id="a person"),
        pytest.param(cut_off_by_nobody, "interrupted", id="the end of the agent"),
    ],
)
async def test_grace_that_is_cut_off_is_followed_by_no_signal(start_job, acting, tmp_path, cut_off, last_event):
    job = start_job(ranks=2, STUBBORN="1")
    async with acting() as client:
        request = await request_for(client, END_JOB, grace_seconds=1.0)
        first = await ask_for(client, request)
        await cut_off(tmp_path)
    assert await finishes(tmp_path, last_event)
    async with acting() as client:
        again = await ask_for(client, request)
        assert (again.result, again.repeated, again.reason) == (ACTED, True, first.reason)
    await asyncio.sleep(1.5)  # longer than the grace
    assert "signal" not in events(tmp_path)
    assert all(still_lives(pid) for pid in (*job.pids.values(), job.launcher.pid))


async def test_agent_that_ends_between_two_kills_sends_no_further_signal(start_job, acting, end_acts_after, tmp_path):
    job = start_job(ranks=2, STUBBORN="1")
    async with acting() as client:
        request = await request_for(client, END_JOB, grace_seconds=1.0)
        end_acts_after("result", client.agent._acts)
        assert (await ask_for(client, request)).result == ACTED
        assert await finishes(tmp_path, "interrupted")
    assert events(tmp_path) == ["announced", "done", "signal", "result", "interrupted"]
    assert all(still_lives(pid) for pid in job.pids.values())


async def test_crash_loop_is_ended_while_no_rank_has_a_box(start_job, acting):
    without_box = r"os.write(1, f'rank 1 {os.getpid()}\n'.encode()); time.sleep(120)"
    only_rank_0_has_a_box = RANK.replace("assert", f"if os.environ['RANK'] == '1': {without_box}\nassert")
    job = start_job(ranks=2, command=[sys.executable, "-c", LAUNCHER, only_rank_0_has_a_box])
    async with acting() as client:
        request = await request_for(client, STOP_RESTARTS, grace_seconds=1.0)
        os.kill(job.pids[0], signal.SIGKILL)
        assert job.rank_ended(0)
        assert (await ask_for(client, request)).result == ACTED
        assert job.launcher.wait(10) == -signal.SIGTERM


SHELL = ("bash", "-c", 'RANK=0 "$0" -c "$1"; true', sys.executable, RANK)
NOTEBOOK = (sys.executable, "-c", LAUNCHER, RANK, "/opt/bin/ipykernel_launcher.py")
SESSION = ("setsid", "--wait", sys.executable, "-c", LAUNCHER, RANK)
NO_LAUNCHERS = {
    "one rank": ({"restarts": "", "ranks": 1}, "which started the only rank of job, is no launcher"),
    "shell": ({"restarts": "3", "ranks": 1, "command": SHELL}, "is a shell"),
    "notebook": ({"restarts": "0", "ranks": 2, "command": NOTEBOOK}, "is a notebook or an interpreter"),
    "session": ({"restarts": "", "ranks": 2, "command": SESSION}, "leads a session or has a terminal"),
}


@pytest.mark.parametrize(("options", "reason"), NO_LAUNCHERS.values(), ids=NO_LAUNCHERS)
async def test_process_that_is_no_launcher_is_not_ended(start_job, acting, options, reason):
    job = start_job(**options)
    async with acting() as client:
        answer = await ask_for(client, await request_for(client, END_JOB))
    assert_refused(answer, reason, job.pids[0])


async def test_parent_of_several_ranks_is_a_launcher_even_without_restarts(start_job, acting, tmp_path):
    job = start_job(restarts="", ranks=2)
    async with acting() as client:
        assert "does not restart ranks" in (await ask_for(client, await request_for(client, STOP_RESTARTS))).reason
        answer = await ask_for(client, await request_for(client, END_JOB, grace_seconds=1.0))
        assert answer.result == ACTED
        assert job.launcher.wait(10) == -signal.SIGTERM
        assert await finishes(tmp_path)
