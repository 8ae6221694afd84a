"""Run the ranks of a job without a launcher, as forks of a process that has imported torch.

With torchrun, a test would pay for three imports of torch (6 s of processor time). Like torchrun, the test holds the
store in which the ranks meet, and ends all ranks with SIGTERM when the first rank fails.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import warnings
from contextlib import suppress
from datetime import timedelta
from multiprocessing.connection import wait
from pathlib import Path

import torch.distributed as dist

from lab.jobs.without_torchrun import rank_environment
from tests.conftest import Zygote

# The message of a rank that torch 2.13 aborts at its very end, also without zmon: a gloo thread releases the tensors of
# the last collective (ProcessGroupGloo::runLoop) and asks for the lock of an interpreter that has ended.
ABORTED_AT_THE_END = "terminate called without an active exception"
# The function in which a rank of torch 2.13 hangs at its very end, also without zmon: in forks of a fresh process 7 of
# 12 unwatched runs of ddp_accumulate hung. The rank's main thread holds the interpreter lock and waits for the gloo
# thread to end (~ProcessGroupGloo joins it). The gloo thread waits for the lock, to release what the backward pass had
# put into the collective (torch/autograd/graph.py, _stash_obj_in_tls). A test warns and runs the ranks again.
HUNG_AT_THE_END = "~ProcessGroupGloo"
POLL_SECONDS = 20  # after so long without the end of a rank, py-spy looks for one that hangs
TRIES = 4  # runs of the ranks until torch neither aborts nor hangs
GRACE_SECONDS = 30  # the time from SIGTERM to SIGKILL, as in torchrun


class HungAtTheEnd(AssertionError):
    """A rank has finished its script, but its process does not end."""


def run_ranks(
    zygote: Zygote, folder: Path, ranks: int, script: str, *arguments: str, seconds: float = 90, **env: str
) -> subprocess.CompletedProcess[str]:
    """Run the script as this number of ranks until they end; logs go to `folder`.

    The exit code is that of the rank that failed first, else 0. All ranks run again if torch itself aborted a finished
    rank or made it hang.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for attempt in range(TRIES):
        try:
            ended = _run_once(zygote, folder, ranks, [script, *arguments], seconds, env)
        except HungAtTheEnd:
            if attempt == TRIES - 1:
                raise
            warnings.warn("a finished rank waits forever for a gloo thread", stacklevel=2)
            continue
        if ABORTED_AT_THE_END not in ended.stderr:
            break
        warnings.warn("torch aborted a rank at its very end", stacklevel=2)
    return ended


def _run_once(
    zygote: Zygote, folder: Path, ranks: int, command: list[str], seconds: float, env: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=seconds))
    stdout_logs = [folder / f"1-{rank}" for rank in range(ranks)]
    stderr_logs = [folder / f"2-{rank}" for rank in range(ranks)]
    for log in stdout_logs + stderr_logs:
        log.unlink(missing_ok=True)
    pids = [
        zygote.ask(
            run=command[0],
            arguments=command[1:],
            env=environment(rank, ranks, store.port) | {"ZMON_BOX_DIR": str(folder / "boxes")} | env,
            log=str(stdout_logs[rank]),
            errors=str(stderr_logs[rank]),
        )["pid"]
        for rank in range(ranks)
    ]
    try:
        code = _wait(zygote, pids, seconds)
    finally:
        del store
    stdout, stderr = ("".join(log.read_text() for log in logs if log.exists()) for logs in (stdout_logs, stderr_logs))
    return subprocess.CompletedProcess(command, code, stdout, stderr)


def environment(rank: int, ranks: int, port: int) -> dict[str, str]:
    """Return the environment that torchrun gives a rank."""
    store = {"TORCHELASTIC_USE_AGENT_STORE": "True"}  # the launcher holds it
    return rank_environment(rank, ranks, port) | store


def _hangs_at_its_end(pid: int) -> bool:
    command = [str(Path(sys.executable).with_name("py-spy")), "dump", "--native", "--pid", str(pid)]
    return HUNG_AT_THE_END in subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout


def _wait(zygote: Zygote, pids: list[int], seconds: float) -> int:
    """Wait for all ranks, kill those that are left, and return the exit code of the rank that failed first, or 0."""
    pids_by_fd = {os.pidfd_open(pid): pid for pid in pids}
    deadline = time.monotonic() + seconds
    first_failure = 0
    try:
        while pids_by_fd:
            seconds_left = max(0.0, deadline - time.monotonic())
            ready = wait(list(pids_by_fd), min(POLL_SECONDS, seconds_left))
            if not ready and seconds_left > POLL_SECONDS:
                if not first_failure and any(map(_hangs_at_its_end, pids_by_fd.values())):
                    raise HungAtTheEnd
                continue
            if not ready:
                assert first_failure, f"ranks still run after {seconds:g} s"
                _signal(pids_by_fd.values(), signal.SIGKILL)
                deadline = time.monotonic() + GRACE_SECONDS
            for end in ready:
                status = zygote.ask(wait=pids_by_fd.pop(end))["status"]
                os.close(end)
                code = os.waitstatus_to_exitcode(status)
                if code and not first_failure:
                    first_failure = code
                    deadline = time.monotonic() + GRACE_SECONDS
                    _signal(pids_by_fd.values(), signal.SIGTERM)
    finally:
        _signal(pids_by_fd.values(), signal.SIGKILL)
        for end, pid in pids_by_fd.items():
            zygote.ask(wait=pid)
            os.close(end)
    return first_failure


def _signal(pids, number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
