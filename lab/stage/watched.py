"""The stage of `zmon watch`: each job under a watch of its own, on this machine, without a stack.

While a watch runs, the stage asks its hub and its agent over their sockets. When the watch has ended, the stage reads
its card.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil

from lab import jobs
from lab.stage import JobSpec, PartName, ReceivedPage, Shown, client
from lab.stage.host import rendezvous
from lab.stage.launched import Launched, launch
from lab.stage.published import state_of
from lab.stage.supervised import HOST
from zmon.cli.render.verdict import VerdictCard
from zmon.cli.watch.observer import AGENT_SOCKET, FOLDER_PREFIX, HUB_SOCKET
from zmon.errors import PartFailed
from zmon.schema.finding import Finding
from zmon.schema.job import JobView
from zmon.schema.rank import RankState

_CARD = "card.json"  # of each watch, in the directory of its job


class Watched:
    """Jobs under `zmon watch`, in the directories of a drill."""

    name = "watch"
    witnesses: tuple[PartName, ...] = ()  # a watch sends no pages

    def __init__(self, folder: Path, policy: Path | None = None) -> None:
        self.folder, self.policy = folder, policy
        self._temporary = Path(tempfile.mkdtemp(prefix="zmon-stage-"))  # the path of a socket must be short
        self._jobs: list[Launched] = []

    def start(self, spec: JobSpec) -> Launched:
        """Start a job; each of its launchers has a watch."""
        folder = self.folder / "jobs" / spec.job_id
        temporary = self._temporary / spec.job_id
        for directory in (folder, temporary):
            directory.mkdir(parents=True)
        env = jobs.environment(spec, folder, self.folder / "boxes")
        env |= {"ZMON_HOST": HOST, "TMPDIR": str(temporary)}
        commands = (
            jobs.command(spec, *options, watch=("--json", f"{number}-{_CARD}"))
            for number, options in enumerate(rendezvous(spec))
        )
        self._jobs.append(launch(spec, folder, ((command, env) for command in commands)))
        return self._jobs[-1]

    def findings(self, job_id: str | None, active: bool = True) -> list[Finding]:
        """Return the findings of the watches of one job, or of all jobs, newest first."""
        findings: list[Finding] = []
        for job in self._of(job_id):
            for hub in self._daemons(job, HUB_SOCKET):
                findings += client.findings(hub, job.spec.job_id, active)
            for card in _cards(job) if not active else ():  # nothing is open once the job has ended
                findings += card.findings
        return sorted(findings, key=lambda finding: -finding.detected)

    def published(self, job_id: str) -> tuple[Shown, ...]:
        """Return the last state of each finding; a watch keeps no earlier ones."""
        return tuple(state_of(finding) for finding in reversed(self.findings(job_id, active=False)))

    def job(self, job_id: str) -> JobView | None:
        """Return the view that a watch has of one job, or None."""
        views = (client.job(hub, job_id) for job in self._of(job_id) for hub in self._daemons(job, HUB_SOCKET))
        return next((view for view in views if view is not None), None)

    def ranks(self, job_id: str) -> dict[int, RankState]:
        """Return the states of one job's ranks, from all of its watches."""
        agents = [agent for job in self._of(job_id) for agent in self._daemons(job, AGENT_SOCKET)]
        return client.ranks(agents, job_id)

    def intents(self) -> None:
        """Return nothing: a watch never acts."""

    def forget_acts(self) -> None:
        """Do nothing: a watch never acts."""

    def pages(self) -> list[ReceivedPage]:
        """Return nothing: a watch sends no pages."""
        return []

    def query(self, promql: str) -> list[dict[str, object]]:
        """Return nothing: there is no Prometheus."""
        return []

    def part(self, part: PartName, host: str | None = None) -> psutil.Process:
        """Raise PartFailed: a watch has all parts in one process."""
        raise PartFailed(f"{part} does not run", "zmon watch has no parts", "play this drill without --watch")

    def supervisor(self) -> psutil.Process:
        """Return the watch of the newest job."""
        return psutil.Process(self._jobs[-1].launchers[0])

    def is_healthy(self, part: PartName) -> bool:
        """Return True if all watches answer, or have ended."""
        return all(job.exit_code() is not None or self.job(job.spec.job_id) for job in self._jobs)

    def close(self) -> None:
        """End the jobs, and with them their watches."""
        for job in self._jobs:
            job.end()
        shutil.rmtree(self._temporary, ignore_errors=True)

    def _of(self, job_id: str | None) -> list[Launched]:
        """Return the job with this id, or all jobs if it is None."""
        return [job for job in self._jobs if job_id in (None, job.spec.job_id)]

    def _daemons(self, job: Launched, socket: str) -> Iterator[Path]:
        """Yield the socket of a daemon in each watch of the job that runs."""
        yield from (self._temporary / job.spec.job_id).glob(f"{FOLDER_PREFIX}*/{socket}")


def _cards(job: Launched) -> Iterator[VerdictCard]:
    """Yield the card of each watch of the job that has ended."""
    for path in sorted(job.folder.glob(f"*-{_CARD}")):
        try:
            yield msgspec.json.decode(path.read_bytes(), type=VerdictCard)
        except msgspec.DecodeError:  # it is being written
            continue
