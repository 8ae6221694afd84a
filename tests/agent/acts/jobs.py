"""Real jobs for tests of acts: a launcher with ranks that hold real boxes, and requests to the agent about them."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tests.agent.agent_client import get_snapshot, poll
from tests.boxes import eventually
from tests.places import REPOSITORY
from zmon.agent.acts.ledger import FILE, ActEntry
from zmon.process import process_stat
from zmon.schema.act import KILL_CULPRIT, REFUSED, ActAnswer, ActRequest
from zmon.schema.api import endpoints
from zmon.web.client import ask

# A rank writes its line in one call, because all ranks write to the same pipe.
RANK = r"""
import os, signal, sys, time
import zmon.probe
if os.environ.get("STUBBORN"):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
assert zmon.probe.attach_box()
os.write(1, f"rank {os.environ['RANK']} {os.getpid()}\n".encode())
time.sleep(120)
"""
LAUNCHER = """
import os, signal, subprocess, sys
if os.environ.get("STUBBORN"):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
ranks = [
    subprocess.Popen([sys.executable, "-c", sys.argv[1]], env={**os.environ, "RANK": n, "LOCAL_RANK": n})
    for n in map(str, range(int(os.environ["WORLD_SIZE"])))
]
for rank in ranks:
    rank.wait()
"""


class LaunchedJob:
    """A launcher and its ranks, in a process group of their own."""

    def __init__(
        self,
        folder: Path,
        job_id: str = "job",
        ranks: int = 1,
        restarts: str = "3",
        command: Sequence[str] | None = None,
        **env: str,
    ) -> None:
        """Start the job and wait for the first line of each rank.

        `restarts`: how often the launcher may start the ranks again; "": its environment does not say. `command` is
        the launcher, by default one that starts the ranks and waits for them.
        """
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("ZMON_", "TORCH"))}
        environment |= {
            "ZMON_BOX_DIR": str(folder), "ZMON_JOB_ID": job_id, "WORLD_SIZE": str(ranks), "PYTHONPATH": str(REPOSITORY),
            "LOCAL_WORLD_SIZE": str(ranks), **env,
        }  # fmt: skip
        if restarts:
            environment |= {"TORCHELASTIC_MAX_RESTARTS": restarts, "TORCHELASTIC_RESTART_COUNT": "0"}
        self.launcher = subprocess.Popen(
            command or [sys.executable, "-c", LAUNCHER, RANK],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            process_group=0,
        )
        self.pids: dict[int, int] = {}  # by rank
        while len(self.pids) < ranks:
            line = self.launcher.stdout.readline().split()
            if not line:
                self.end()
                raise AssertionError("the launcher ended before all ranks had started")
            self.pids[int(line[1])] = int(line[2])

    def end(self) -> None:
        """Kill the ranks, and the launcher with its process group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.launcher.pid, signal.SIGKILL)
        for pid in self.pids.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.launcher.wait(timeout=10)
        self.launcher.stdout.close()

    def rank_ended(self, rank: int = 0, seconds: float = 5.0) -> bool:
        """Return True as soon as a rank has ended, False if it has not after these seconds."""
        return eventually(lambda: is_gone(self.pids[rank]), seconds)

    def stop(self, pid: int) -> None:
        """Stop a process with SIGSTOP, which it cannot ignore, and wait until it is stopped."""
        os.kill(pid, signal.SIGSTOP)
        assert eventually(lambda: process_stat(pid).state == "T")


def assert_refused(answer: ActAnswer, reason: str, *living: int) -> None:
    """Check that an act was refused for a reason with this text, and that these processes live on."""
    assert answer.result == REFUSED
    assert reason in answer.reason
    assert all(still_lives(pid) for pid in living)


def is_gone(pid: int) -> bool:
    """Return True if a process has ended, whether or not it was reaped."""
    stat = process_stat(pid)
    return stat is None or stat.state in "ZX"


def still_lives(pid: int) -> bool:
    """Return True if a process lives after 0.1 s, in which a signal would have ended it."""
    time.sleep(0.1)
    return not is_gone(pid)


async def request_for(client, act=KILL_CULPRIT, rank=0, job_id="job", **changes):
    """Return a request about a rank, once the agent reports the rank."""

    async def run_uid_of_rank():
        states = (await get_snapshot(client)).ranks
        return next((state.run_uid for state in states if (state.job_id, state.rank) == (job_id, rank)), None)

    run_uid = await poll(run_uid_of_rank)
    assert run_uid is not None, f"the agent never reported rank {rank} of {job_id}"
    values = {
        "act": act, "job_id": job_id, "rank": rank, "run_uid": run_uid, "intent": "intent-1", "reason": "rule r: frozen"
    }  # fmt: skip
    return ActRequest(**{**values, **changes})


async def ask_for(client, request, seconds=20.0) -> ActAnswer:
    """Send the request as a hub does, and wait for the answer for up to these seconds."""
    return await ask(client.session, client.url, endpoints.ACTS, request, seconds)


def entries(tmp_path: Path) -> list[ActEntry]:
    """Return the entries of the agent's ledger of acts, oldest first."""
    path = tmp_path / "data" / FILE
    lines = path.read_bytes().splitlines() if path.exists() else []
    return [msgspec.json.decode(line, type=ActEntry) for line in lines]


def events(tmp_path: Path) -> list[str]:
    """Return the event of each entry of the ledger."""
    return [entry.event for entry in entries(tmp_path)]


async def finishes(tmp_path: Path, event: str = "finished") -> bool:
    """Wait until the ledger has the last event of an act; return True then."""
    return await poll(lambda: event in events(tmp_path), 15.0) is not None
