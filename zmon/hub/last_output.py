"""The last lines that the ranks of a launch printed, which the hub requests once when the launch is over.

The lines may say why the launch ended: a scheduler reports a reached time limit there, and a library why it aborted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import aiohttp

from zmon.hub.agent_link import AgentLink
from zmon.hub.agent_poller import evidence_of
from zmon.hub.config import HubConfig
from zmon.job.facts import began_to_end
from zmon.job.outcome import launch_key
from zmon.job.restarts import is_over
from zmon.schema.api import RankEvidence
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.rank import RankState

_MAX_LAUNCHES = 200  # launches that no agent reports any more, and whose lines stay in memory; 16 kB each
_MAX_RANKS = 2  # the ranks that ended first: the others print what followed from that


class LastOutput:
    """The last lines of each launch that is over."""

    def __init__(self, config: HubConfig, links: Sequence[AgentLink]) -> None:
        self._config, self._links = config, links
        self._lines: dict[str, tuple[str, ...]] = {}  # by `launch_key`
        self._tasks: dict[str, asyncio.Task[None]] = {}  # by `launch_key`; a launch is asked about once

    def lines(self, snapshot: Snapshot) -> tuple[str, ...]:
        """Return the lines of a launch; none before the answer, or if the ranks printed nothing."""
        return self._lines.get(launch_key(snapshot), ())

    def update(self, session: aiohttp.ClientSession, snapshots: Sequence[Snapshot]) -> None:
        """Ask for the lines of launches that are over; call it in every pass."""
        reported = {launch_key(snapshot): snapshot for snapshot in snapshots}
        for key, snapshot in reported.items():
            if key not in self._tasks and is_over(snapshot):
                self._tasks[key] = asyncio.create_task(self._gather(session, key, _first_to_end(snapshot)))
        for key in [key for key in self._tasks if key not in reported][:-_MAX_LAUNCHES]:
            del self._tasks[key]
            self._lines.pop(key, None)

    def cancel(self) -> None:
        for task in self._tasks.values():
            task.cancel()

    async def _gather(self, session: aiohttp.ClientSession, key: str, ranks: Sequence[RankState]) -> None:
        answers = await evidence_of(session, self._config, self._links, ranks, flights=False)
        texts = [answer.stderr_tail or "" for answer in answers.values() if isinstance(answer, RankEvidence)]
        self._lines[key] = tuple(line for text in dict.fromkeys(texts) for line in text.splitlines())


def _first_to_end(snapshot: Snapshot) -> list[RankState]:
    """Return the ranks that began to end first, without those that had finished."""
    ranks = [rank for rank in snapshot.ranks if rank.activity != "done"]
    return sorted(ranks, key=lambda rank: began_to_end(rank).latest)[:_MAX_RANKS]
