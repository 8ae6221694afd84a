"""The agents that reported each job with a finding, on disk as `agents/jobs.json`, for the time after a restart.

If no agent reports a job any more, its findings resolve, but only after every agent that may have the job has answered.
This file says which agents those are. Without it one dead node would keep the findings of all finished jobs open.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

import msgspec

from zmon.hub.agent_link import FORGET_SECONDS, AgentLink
from zmon.hub.json_folder import SAVE_SECONDS, JsonFolder, decoder

FOLDER = "agents"  # name of the folder in the data directory
_KEY = "jobs"


class _Reported(msgspec.Struct, frozen=True):
    """The ids of the jobs that each agent reported, by its URL."""

    jobs: dict[str, tuple[str, ...]]
    schema: int = 1


class JobAgents:
    """The jobs that each agent reported, also for agents that have not answered since the hub started."""

    def __init__(self, folder: Path) -> None:
        self._files = JsonFolder(
            folder,
            decoder(_Reported),
            if_unusable="findings of finished jobs stay open until all agents have answered",
            if_unwritten="after a restart of the hub, findings of finished jobs may stay open for an hour",
        )
        stored = self._files.get(_KEY)
        self._jobs = dict(stored.jobs) if stored else {}
        self._saved_at = 0.0

    @property
    def error(self) -> str | None:
        """The reason why the jobs of agents cannot be written, or None."""
        return self._files.error

    def update(self, links: Iterable[AgentLink], job_ids: Iterable[str]) -> None:
        """Record what the agents report, every few seconds. Only the jobs with findings, `job_ids`, are recorded.

        An agent that reported a job is recorded until the findings are resolved.
        """
        now = time.monotonic()
        if now - self._saved_at < SAVE_SECONDS:
            return
        self._saved_at = now
        self._files.retry(time.time())
        wanted = set(job_ids)
        jobs = {}
        for link in links:
            reported = {rank.job_id for rank in link.report.ranks} if link.report else set()
            recorded = self._jobs.get(link.url, ())
            jobs[link.url] = tuple(sorted(wanted & reported.union(recorded)))
        if jobs != self._jobs:
            self._jobs = jobs
            self._files.put(_KEY, _Reported(jobs))

    def may_have(self, links: Iterable[AgentLink], job_id: str) -> bool:
        """Return True if an agent that has not answered yet may report the job. It has an hour to answer."""
        links = list(links)
        silent = [link for link in links if not link.report and link.silent_seconds <= FORGET_SECONDS]
        owners = {url for url, ids in self._jobs.items() if job_id in ids}
        if not owners or owners - {link.url for link in links}:
            return bool(silent)  # the agents of the job are unknown, or one of them may have another address now
        return any(link.url in owners for link in silent)
