"""Tests of an agent that is an ordinary user: what each capability gives it about the rank of another user.

The unit in deploy/systemd and docs/deploy/systemd.md have the same table.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time

import pytest
import requests
from aiohttp.test_utils import unused_port

from tests.hostile.users import AGENT_UID, BOB, as_agent, become, needs_root
from tests.places import REPOSITORY
from zmon.box.roots import PLACES

pytestmark = [
    needs_root,
    pytest.mark.e2e,
    pytest.mark.slow,  # a rank with torch, and four agents
    pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv is not installed"),
]

JOB = "capabilities"
START_SECONDS = 60.0
RANK = f"""
import importlib, os, sys, time, torch, torch.distributed as dist, torch.nn.parallel, zmon
from zmon.probe.hooks import AT_RANK, HOOKS
for name in (*HOOKS, *AT_RANK):  # the user may not be allowed to read this checkout
    importlib.import_module(f"zmon.probe.hooks.{{name}}")
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT, 0o600)
os.fchown(fd, {BOB}, -1)
os.dup2(fd, 2)
{become(BOB)}
assert zmon.attach()
dist.init_process_group("gloo")
for _ in range(20):
    with zmon.step():
        dist.all_reduce(torch.ones(8))
print("learning rate 0.1", file=sys.stderr, flush=True)
print("ready", flush=True)
def hang_here():
    time.sleep(300)
hang_here()
"""

NEEDED = {  # what the agent gets, and the capabilities that it takes
    "boxes": {"dac_read_search"},
    "connections": {"sys_ptrace"},
    "stderr": {"sys_ptrace"},
    "wchan": {"sys_ptrace"},
    "stack": {"sys_ptrace"},
    "kernel log": {"syslog"},
    "flight record": {"dac_override"},
}
SETS = (
    ("dac_read_search",),
    ("dac_read_search", "sys_ptrace"),
    ("dac_read_search", "sys_ptrace", "syslog"),
    ("dac_read_search", "sys_ptrace", "syslog", "dac_override"),
)
READER = "import sys, urllib.request as r; sys.stdout.write(r.urlopen(sys.argv[1], timeout=20).read().decode())"


@pytest.fixture(scope="module")
def rank(tmp_path_factory):
    """A rank of another user that hangs in its own code."""
    folder = tmp_path_factory.mktemp("rank")
    roots = [root for root in (PLACES.in_shm(BOB), PLACES.in_run(BOB)) if not root.exists()]
    env = {**os.environ, "ZMON_JOB_ID": JOB, "RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "ZMON_BOX_DIR": ""}
    env |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(unused_port()), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-c", RANK, str(folder / "stderr")], env=env | {"PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout.readline() == "ready\n"
    yield process
    process.kill()
    process.wait()
    for root in roots:
        shutil.rmtree(root, ignore_errors=True)


@pytest.fixture(scope="module", params=SETS, ids=lambda names: f"{len(names)}")
def known(request, rank, tmp_path_factory):
    """The capabilities of an agent, and what it knows about the rank."""
    names, port = request.param, unused_port()
    folder = tmp_path_factory.mktemp("agent")
    folder.chmod(0o777)
    process = subprocess.Popen(
        [*as_agent(*names), sys.executable, "-m", "zmon", "agent", "--port", str(port), "--data-dir",
         str(folder / "data")],
        cwd="/", env={**os.environ, "PYTHONPATH": str(REPOSITORY), "HOME": "/"},
    )  # fmt: skip
    url = f"http://127.0.0.1:{port}/api/v1"
    try:
        yield set(names), *_await_knowledge(url, process)
    finally:
        process.terminate()
        process.wait(timeout=20)


def _await_knowledge(url, process):
    """Return the report and the evidence of an agent whose sources have all been read since it saw the rank."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        assert process.poll() is None
        with contextlib.suppress(requests.ConnectionError):
            report = requests.get(f"{url}/snapshot", timeout=10).json()
            if any(state["job_id"] == JOB for state in report.get("ranks", ())) and _knows_sockets(report):
                evidence = json.loads(_answer_to_its_user(f"{url}/evidence/{JOB}/0"))
                if "never saw" not in (evidence["stderr_error"] or ""):
                    return report, evidence
        time.sleep(0.2)
    raise AssertionError("the agent does not see the rank")


def _answer_to_its_user(url):
    """Return the answer to a process of the agent's user, whose open files it sees also in a container."""
    user = ["setpriv", f"--reuid={AGENT_UID}", f"--regid={AGENT_UID}", "--clear-groups"]
    command = [*user, sys.executable, "-c", READER]
    return subprocess.run([*command, url], capture_output=True, check=True).stdout


def _knows_sockets(report):
    """Return True once the rank's sockets were found, or refused."""
    sources = {source["name"]: source for source in report["sources"]}
    peers = (report["sample"].get("tcp") or {}).get("peers", ())
    has_peers = any(peer["job_id"] == JOB for peer in peers)
    return "kernel" in sources and "tcp" in sources and (has_peers or bool(sources["tcp"]["dropped"]))


def has(report, evidence):
    """Return which of the things in NEEDED the agent has."""
    sources = {source["name"]: source for source in report["sources"]}
    return {
        "boxes": any(state["job_id"] == JOB and state["owner"] == BOB for state in report["ranks"]),
        "connections": any(peer["job_id"] == JOB for peer in report["sample"]["tcp"].get("peers", ())),
        "stderr": "learning rate" in (evidence["stderr_tail"] or ""),
        "wchan": evidence["wchan"] not in (None, "0"),
        "stack": "hang_here" in (evidence["stack"] or ""),
        "kernel log": sources["kernel"]["up"],
        "flight record": evidence["flight"] is not None,
    }


def test_each_capability_gives_what_the_table_says_and_no_other_is_needed(known):
    names, report, evidence = known
    assert has(report, evidence) == {thing: needed <= names for thing, needed in NEEDED.items()}


def test_missing_capabilities_are_named(known):
    names, report, evidence = known
    sources = {source["name"]: source for source in report["sources"]}
    if "sys_ptrace" not in names:
        assert "with CAP_SYS_PTRACE" in str(sources["tcp"]["dropped"])
        assert evidence["stderr_error"]
    if "syslog" not in names:
        assert "CAP_SYSLOG" in sources["kernel"]["error"]
    if "dac_override" not in names:
        assert "no CAP_DAC_OVERRIDE" in evidence["flight_error"]
