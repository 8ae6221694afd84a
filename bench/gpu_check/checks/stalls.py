"""Freezes and kills a rank of a job that an agent and a hub watch: the finding must name the cause and only this rank.

Agent and hub are processes as users start them; they need no Prometheus. The fault strikes the last rank. In a job of
several ranks, the other ranks then wait for it in a collective.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import psutil

from bench.gpu_check.kit import JOBS, Kit
from bench.gpu_check.result import FAILED, Result, outcome_of
from bench.gpu_check.settings import Setting
from bench.processes import daemon
from bench.ranks import BOXES, JOB_ID, JobFailed, last_lines, start_job
from lab.drills.score import counts
from lab.drills.targets import TARGETS
from lab.faults.sabotage import wait_until
from lab.jobs.without_torchrun import free_port
from lab.stage import client
from lab.stage.launched import Launched
from zmon.schema.finding import Finding
from zmon.schema.rank import RankState

T = TypeVar("T")

STEPS = 20  # of each rank before the fault
_START_SECONDS = 90.0
_FINDING_SECONDS = 15.0  # far more than the target, so that a late finding is late and not missing
_RESOLVE_SECONDS = 30.0
_SETTLE_SECONDS = 3.0  # until the deaths of the other ranks would be reported as well
_POLL_SECONDS = 0.02
AGENT_LOG, HUB_LOG = "agent.log", "hub.log"


@dataclass(frozen=True)
class Watch:
    """A job with the agent and the hub that watch it."""

    job: Launched
    agent_url: str
    hub_url: str

    def ranks(self) -> dict[int, RankState]:
        """Return the states of the ranks by rank."""
        return client.ranks([self.agent_url], JOB_ID)

    def findings(self) -> list[Finding]:
        """Return the active findings about the job that count in a drill."""
        return [finding for finding in client.findings(self.hub_url, JOB_ID, active=True) if counts(finding)]


def run(kit: Kit, setting: Setting) -> Iterator[Result]:
    """Freeze a rank, let it go on, then kill it."""
    with watch_job(kit.new_folder(), setting) as watch:
        _await_training(watch, setting, kit.seconds_left(_START_SECONDS))
        rank = setting.num_ranks - 1
        process = psutil.Process(watch.ranks()[rank].pid)
        onset = time.time()
        process.suspend()
        try:
            yield _await_finding(watch, "frozen", "rank_frozen", rank, onset, kit.seconds_left(_FINDING_SECONDS))
        finally:
            process.resume()
        yield _await_resolved(watch, kit.seconds_left(_RESOLVE_SECONDS))
        onset = time.time()
        process.kill()
        yield _await_finding(watch, "killed", "rank_exited", rank, onset, kit.seconds_left(_FINDING_SECONDS))
        time.sleep(kit.seconds_left(_SETTLE_SECONDS))
        yield compare_culprits([finding.ranks for finding in watch.findings()], rank)


@contextlib.contextmanager
def watch_job(folder: Path, setting: Setting) -> Iterator[Watch]:
    """Start agent, hub and job; all of them end with the block."""
    agent_port, hub_port = free_port(), free_port()
    agent, hub = (f"http://127.0.0.1:{port}" for port in (agent_port, hub_port))
    data, boxes = str(folder / "data"), str(folder / BOXES)
    agent_options = ("--box-dir", boxes, "--data-dir", data, "--port", str(agent_port), "--host", "gpu-check")
    hub_options = ("--agents", agent, "--data-dir", data, "--port", str(hub_port))
    with (
        daemon("agent", *agent_options, log=folder / AGENT_LOG),
        daemon("hub", *hub_options, log=folder / HUB_LOG),
    ):
        job = start_job(folder, JOBS, "endless", setting.key, ranks=setting.num_ranks)
        try:
            yield Watch(job, agent, hub)
        finally:
            job.end()


def compare_finding(what: str, cause: str, rank: int, finding: Finding | None, seconds: float) -> Result:
    """Return the result of a fault: its first finding, and the seconds until it was published."""
    name = f"{what} rank: fault → finding"
    if finding is None:
        return Result(name, FAILED, compared_with=f"{cause} of rank {rank}", note=f"no finding within {seconds:.0f} s")
    holds = finding.cause == cause and finding.ranks == (rank,) and seconds <= TARGETS.state_seconds
    compared_with = f"{cause} of rank {rank} within {TARGETS.state_seconds:g} s"
    ranks = ", ".join(map(str, finding.ranks))
    return Result(name, outcome_of(holds), seconds, "s", compared_with, f"{finding.cause} of rank {ranks}")


def compare_culprits(culprits: list[tuple[int, ...]], rank: int) -> Result:
    """Return the result of the ranks that are named once all ranks of the job have died."""
    figure = "; ".join(", ".join(map(str, ranks)) for ranks in culprits) or "none"
    holds = culprits == [(rank,)]
    return Result("ranks named after the other ranks died too", outcome_of(holds), figure, "", str(rank))


def _await_training(watch: Watch, setting: Setting, seconds: float) -> None:
    """Wait until each rank has finished STEPS steps. Raises JobFailed after these seconds."""

    def trains() -> bool:
        states = watch.ranks().values()
        is_known = client.job(watch.hub_url, JOB_ID) is not None
        return is_known and len(states) == setting.num_ranks and all(state.steps >= STEPS for state in states)

    if not wait_until(lambda: watch.job.exit_code() is not None or trains(), seconds) or not trains():
        folder = watch.job.folder
        logs = "\n".join((last_lines(folder), last_lines(folder, AGENT_LOG), last_lines(folder, HUB_LOG)))
        raise JobFailed(f"the job did not train under agent and hub within {seconds:.0f} s:\n{logs}")


def _await_finding(watch: Watch, what: str, cause: str, rank: int, onset: float, seconds: float) -> Result:
    """Wait for the first finding since the onset of a fault (unix seconds); return the result of the fault."""

    def current() -> Finding | None:
        return next((finding for finding in watch.findings() if finding.detected >= onset), None)

    finding = _poll(current, seconds)
    return compare_finding(what, cause, rank, finding, time.time() - onset if finding else seconds)


def _await_resolved(watch: Watch, seconds: float) -> Result:
    begin = time.monotonic()
    resolved = _poll(lambda: not watch.findings() and client.is_healthy(f"{watch.hub_url}/healthz"), seconds)
    figure = time.monotonic() - begin
    limit = f"within {TARGETS.resolve_seconds:g} s"
    return Result("frozen rank: resumed → resolved", outcome_of(bool(resolved)), figure, "s", limit)


def _poll(condition: Callable[[], T], seconds: float) -> T:
    """Return the first true answer of a condition, or its last answer after these seconds."""
    deadline = time.monotonic() + seconds
    while not (answer := condition()) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    return answer
