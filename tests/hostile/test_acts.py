"""Tests of jobs and users that want the agent to end something else: it refuses, and says why."""

import asyncio
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys

import msgspec
import pytest
import requests
from aiohttp.test_utils import unused_port

from tests.agent.acts.conftest import acting, start_job
from tests.agent.acts.jobs import LAUNCHER, RANK, LaunchedJob, ask_for, is_gone, request_for, still_lives
from tests.agent.conftest import make_live_box, serve
from tests.boxes import StandIn, eventually
from tests.hostile.users import AGENT_UID, ANN, BOB, as_agent, become, needs_root
from tests.places import REPOSITORY
from zmon.process import process_stat
from zmon.schema.act import ACTED, END_JOB, KILL_CULPRIT, REFUSED, ActRequest

__all__ = ["acting", "make_live_box", "serve", "start_job"]  # fixtures
needs_setpriv = pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv is not installed")
needs_unshare = pytest.mark.skipif(shutil.which("unshare") is None, reason="unshare is not installed")


@pytest.fixture
def bystander():
    """A process that a box names and that has nothing to do with the job."""
    process = subprocess.Popen(["sleep", "60"], start_new_session=True)
    yield process
    process.kill()
    process.wait()


async def test_job_that_names_the_process_of_somebody_else_loses_only_its_rank(
    make_live_box, acting, bystander, tmp_path
):
    box = make_live_box(pid=bystander.pid)
    async with acting(box_dir=tmp_path) as client:
        answer = await ask_for(client, await request_for(client))
    assert answer.result == ACTED
    assert eventually(lambda: is_gone(box.holder.pid))
    assert still_lives(bystander.pid)


@pytest.mark.parametrize(
    ("claim", "reason"),
    [
        ("somebody else's", "it is not proved that process"),
        ("a reused number", "it started at another time"),
        ("the agent", "is the first one, the agent itself, or one that the agent runs under"),
        ("the parent of the agent", "is the first one, the agent itself, or one that the agent runs under"),
        ("the first process", "names no launcher"),
        ("none", "names no launcher"),
    ],
)
async def test_job_that_names_another_launcher_ends_nothing(make_live_box, acting, bystander, tmp_path, claim, reason):
    start = process_stat(bystander.pid).start_ticks
    pid, start_ticks = {
        "somebody else's": (bystander.pid, start),
        "a reused number": (bystander.pid, start - 500),  # another process had this number, and began 500 ticks earlier
        "the agent": (os.getpid(), process_stat(os.getpid()).start_ticks),
        "the parent of the agent": (os.getppid(), process_stat(os.getppid()).start_ticks),
        "the first process": (1, process_stat(1).start_ticks),
        "none": (0, 0),
    }[claim]
    box = make_live_box(launcher_pid=pid, launcher_start=start_ticks, max_restarts=3)
    async with acting(box_dir=tmp_path) as client:
        answer = await ask_for(client, await request_for(client, END_JOB))
    assert answer.result == REFUSED
    assert reason in answer.reason
    assert still_lives(bystander.pid)
    assert still_lives(box.holder.pid)


@needs_root
@pytest.mark.parametrize(
    ("act", "reason"),
    [
        (KILL_CULPRIT, f"runs as uid 0, and the box is of uid {BOB}"),
        (END_JOB, f"runs as uid 0 and not as uid {BOB}: end the job with what started it, such as scancel"),
    ],
)
async def test_process_of_another_user_than_the_owner_of_the_box_is_never_ended(
    make_live_box, acting, tmp_path, act, reason
):
    """The owner of a box lets a process of somebody else hold it, and names that process as the launcher."""
    other = StandIn()
    start_ticks = process_stat(other.pid).start_ticks
    box = make_live_box(max_restarts=3, launcher_pid=other.pid, launcher_start=start_ticks)
    for path in (tmp_path, box.path.parents[1], box.path.parent, box.path):
        os.chown(path, BOB, BOB)
    try:
        async with acting(box_dir=tmp_path) as client:
            answer = await ask_for(client, await request_for(client, act))
        assert answer.result == REFUSED
        assert reason in answer.reason
        assert still_lives(box.holder.pid)
        assert still_lives(other.pid)
    finally:
        other.end()


@needs_root
@needs_unshare
async def test_rank_in_a_pid_namespace_is_killed_by_its_lock_and_its_launcher_is_refused(tmp_path, acting):
    """The box has the numbers of that namespace, which are those of other processes outside."""
    command = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", sys.executable, "-c", LAUNCHER, RANK]
    job = LaunchedJob(tmp_path / "boxes", command=command)
    claimed = job.pids.pop(0)
    try:
        async with acting() as client:
            request = await request_for(client)
            answer = await ask_for(client, msgspec.structs.replace(request, act=END_JOB))
            assert answer.result == REFUSED
            assert "is in another PID namespace" in answer.reason
            answer = await ask_for(client, request)
        assert answer.result == ACTED
        pid = int(re.search(r"process (\d+)", answer.reason)[1])
        assert pid != claimed
        assert is_gone(pid)
    finally:
        job.end()


AGENT = """
import asyncio, pathlib, sys
from zmon.agent.acts import Acts
from zmon.agent.sources.boxes import Boxes
from zmon.schema.act import ActRequest
folder = pathlib.Path(sys.argv[1])
boxes = Boxes(folder / "boxes", "node-a")
boxes.scan()
((_, rank),) = boxes.ranks()
acts = Acts(folder / "data", "node-a", lambda question: question(boxes))
request = ActRequest(act="kill_culprit", job_id="job", rank=0, run_uid=rank.run_uid, intent="i", reason="frozen")
answer = asyncio.run(acts.answer(request))
print(answer.result, answer.reason)
"""


@needs_root
@needs_unshare
async def test_agent_in_another_pid_namespace_than_the_rank_refuses(start_job, tmp_path):
    job = start_job()
    command = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", sys.executable, "-c", AGENT, str(tmp_path)]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.startswith("refused rank 0 of job")
    assert "is in another PID namespace: run the agent in that of the host (hostPID)" in done.stdout
    assert still_lives(job.pids[0])


RANK_OF_USER = """
import sys, time, zmon.probe, zmon.probe.launch, zmon.box.writer  # the user may not reach these files
{become}
assert zmon.probe.attach_box()
print("rank", 0, os.getpid(), flush=True)
time.sleep(120)
"""


@needs_root
@needs_setpriv
@pytest.mark.parametrize("may_kill", [False, True], ids=["as the unit", "with the drop-in"])
async def test_agent_that_is_no_root_needs_cap_kill(tmp_path, may_kill):
    boxes = tmp_path / "boxes"
    boxes.mkdir()
    for folder in (*tmp_path.parents, tmp_path, boxes):
        if str(folder).startswith("/tmp/"):
            folder.chmod(0o755)
    shutil.chown(boxes, BOB, BOB)
    job = LaunchedJob(boxes, command=[sys.executable, "-c", RANK_OF_USER.format(become=become(BOB))], RANK="0")
    names = ("dac_read_search", "sys_ptrace", "syslog", *(("kill",) if may_kill else ()))
    (tmp_path / "data").mkdir()
    shutil.chown(tmp_path / "data", AGENT_UID, AGENT_UID)
    port = unused_port()
    command = [
        *as_agent(*names), sys.executable, "-m", "zmon", "agent", "--port", str(port), "--box-dir", str(boxes),
        "--data-dir", str(tmp_path / "data"), "--allow-actions",
    ]  # fmt: skip
    try:
        with running(command, port):
            answer = answer_of(port)
        assert answer["result"] == (ACTED if may_kill else REFUSED), answer
        if may_kill:
            assert job.rank_ended()
        else:
            assert answer["reason"] == f"the agent may not end processes of uid {BOB}: CAP_KILL (docs/act.md)"
            assert still_lives(job.pids[0])
    finally:
        job.end()


@contextlib.contextmanager
def running(command, port):
    """Run an agent until it reports a rank, and end it afterwards."""
    process = subprocess.Popen(command, cwd="/", env={**os.environ, "PYTHONPATH": str(REPOSITORY), "HOME": "/"})
    try:
        assert eventually(lambda: process.poll() is None and ranks_at(port), 30)
        yield
    finally:
        process.kill()  # `unshare` does not pass SIGTERM on
        process.wait(timeout=20)


def ranks_at(port):
    """Return the ranks that the agent at this port reports; None while it does not answer."""
    with contextlib.suppress(requests.ConnectionError):
        return requests.get(f"http://127.0.0.1:{port}/api/v1/snapshot", timeout=10).json().get("ranks")
    return None


def answer_of(port):
    """Ask an agent to kill the rank that it reports, as root."""
    (rank,) = ranks_at(port)
    request = ActRequest(act=KILL_CULPRIT, job_id="job", rank=0, run_uid=rank["run_uid"], intent="i", reason="frozen")
    url = f"http://127.0.0.1:{port}/api/v1/acts"
    return requests.post(url, json=msgspec.to_builtins(request), timeout=20).json()


ASK = """{become}
headers = {{"Content-Type": "application/json"}}
request = urllib.request.Request({url!r}, {request!r}.encode(), headers)
try:
    print(urllib.request.urlopen(request, timeout=20).status)
except urllib.error.HTTPError as error:
    print(error.code, error.read().decode())
"""


@needs_root
async def test_of_the_users_of_a_node_only_those_of_the_hub_may_ask(start_job, acting):
    job = start_job()
    async with acting(hub_users=frozenset({BOB})) as client:
        request = msgspec.json.encode(await request_for(client)).decode()
        for uid, status in ((ANN, 403), (BOB, 200)):
            script = ASK.format(become=become(uid), url=f"{client.url}/api/v1/acts", request=request)
            command = [sys.executable, "-E", "-c", script]
            done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=True)
            assert done.stdout.split()[0] == str(status), done.stdout
            if uid == ANN:
                assert f"uid {ANN} is none of them" in done.stdout
                assert still_lives(job.pids[0])
    assert job.rank_ended()


async def test_agent_that_refuses_leaves_a_frozen_rank_frozen(start_job, acting):
    """A refusal changes nothing about a process."""
    job = start_job(TORCHFT_LIGHTHOUSE="1")  # the agent refuses acts on jobs that torchft restarts
    job.stop(job.pids[0])
    async with acting() as client:
        assert (await ask_for(client, await request_for(client))).result == REFUSED
    assert process_stat(job.pids[0]).state == "T"
    os.kill(job.pids[0], signal.SIGCONT)
