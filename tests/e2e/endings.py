"""Start jobs that end by a fault or by their owner, with and without torchrun, and read zmon's findings about them."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.jobs.without_torchrun import free_port, rank_environment
from tests.conftest import Zygote
from tests.e2e.running_stack import Job, RunningStack, wait_for

SCRIPT = str(Path(__file__).with_name("ending_job.py"))
RANKS = 3
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={RANKS}")
SPAWN, MPIRUN, NO_LAUNCHER = (
    ("-m", "lab.jobs.without_torchrun", name, str(RANKS)) for name in ("spawn", "mpirun", "none")
)
SUPERVISOR = ("bash", "-c", 'while true; do "$@"; done', "supervisor")  # torchrun counts its restarts from 0 again
LOOP_SECONDS = 300  # three starts and their ends
FINDING_SECONDS = 150  # a start takes 10 s, and on a busy machine more than a minute


@dataclass
class EndingJobs:
    """The jobs of one test; `end` leaves none of their processes, with or without their launcher."""

    stack: RunningStack
    directory: Path
    job_id: str
    started: list[Job] = field(default_factory=list)

    def start(self, fault: str, launcher: Sequence[str] = TORCHRUN, supervisor: Sequence[str] = ()) -> Job:
        """Start a job that this fault strikes; "" strikes nobody. A supervisor starts the launcher."""
        job_id = f"{self.job_id}-{len(self.started)}"
        command = [*supervisor, sys.executable, *launcher, SCRIPT]
        self.started.append(Job.start(job_id, self.directory, command, self.environment(job_id, fault)))
        return self.started[-1]

    def environment(self, job_id: str, fault: str) -> dict[str, str]:
        """Return the environment of a job.

        Each start has a new store. By default, torchrun of torch 2.13 uses one store for all starts. A rank may find an
        address there that another rank wrote in the start before, and fail to connect to it.
        """
        gloo_and_store = {"GLOO_SOCKET_IFNAME": "lo", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
        return {**self.stack.env, **gloo_and_store, "ZMON_JOB_ID": job_id, "FAULT": fault}

    def await_training(self, job: Job) -> None:
        """Wait until all ranks of a job train."""
        wait_for(
            f"all ranks train, see {job.log}",
            lambda: sum(rank["steps"] > 10 for rank in self.stack.ranks(job.job_id).values()) >= RANKS,
            FINDING_SECONDS,
        )

    def end(self) -> None:
        """Kill the processes of all jobs that are left: the launchers, then their ranks."""
        for job in self.started:
            job.kill()
            for rank in self.stack.ranks(job.job_id).values():
                if rank["alive"] and rank["pid"]:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(rank["pid"], signal.SIGKILL)


@contextlib.contextmanager
def forked_ranks(zygote: Zygote, environment: dict[str, str], log: Path) -> Iterator[None]:
    """Fork the ranks of a job from a process that has imported torch, without a launcher; kill them at the end."""
    port = free_port()
    pids = [
        zygote.ask(run=SCRIPT, env=environment | rank_environment(rank, RANKS, port), log=str(log))["pid"]
        for rank in range(RANKS)
    ]
    try:
        yield
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            zygote.ask(wait=pid)


def await_finding(
    stack: RunningStack, job_id: str, seconds: float = FINDING_SECONDS, **expected: object
) -> dict[str, Any]:
    """Wait for a finding about a job with these values; a failure shows what was found instead."""
    last: list[dict[str, Any]] = []

    def find() -> Any:
        last[:] = stack.findings(job_id, active=False)
        return next((f for f in last if expected == {name: f[name] for name in expected}), None)

    try:
        finding: dict[str, Any] = wait_for(f"a finding with {expected}", find, seconds)
    except AssertionError as error:
        summaries = [(f["cause"], f["severity"], f["ranks"], f["summary"]) for f in last]
        raise AssertionError(f"{error}; findings: {summaries}") from None
    return finding
