"""When a job stalls: what its ranks are stuck in, asked of their agents behind the pass's back.

Of other findings the ranks go on: their stacks say nothing, and asking costs them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

import aiohttp
import msgspec

from zmon import client, flight
from zmon.hub.book import Books
from zmon.hub.config import HubConfig
from zmon.journal import Journal
from zmon.link import AgentLink
from zmon.records import Finding, Flight, Snapshot


class Gathering:
    """Asks once for each verdict about a stall, and again when it says another thing."""

    def __init__(self, config: HubConfig, links: Sequence[AgentLink], journal: Journal, books: Books) -> None:
        self._config, self._links, self._journal, self._books = config, links, journal, books
        self._asked: dict[str, tuple[Any, ...]] = {}  # by finding: the verdict that evidence was gathered for
        self._tasks: set[asyncio.Task[None]] = set()

    def what_is_new(self, session: aiohttp.ClientSession, snapshot: Snapshot) -> None:
        """Start asking about this job where its verdict is new."""
        active = [finding for finding in self._journal.active() if finding.detector == "stall"]
        self._asked = {f.id: self._asked[f.id] for f in active if f.id in self._asked}
        of_job = [finding for finding in active if finding.job_id == snapshot.job_id]
        if not of_job:
            self._books.of(snapshot).flights = {}
        for finding in of_job:
            verdict = (finding.cause, finding.ranks)
            if self._asked.get(finding.id) != verdict:
                self._asked[finding.id] = verdict
                self._start(self._gather(session, snapshot, finding))

    def cancel(self) -> None:
        """The hub ends."""
        for task in self._tasks:
            task.cancel()

    async def _gather(self, session: aiohttp.ClientSession, snapshot: Snapshot, finding: Finding) -> None:
        """Stacks of the culprits, or of everybody where nobody is named, and what every rank has in flight."""
        config, urls = self._config, {link.report.host: link.url for link in self._links if link.report}
        alive = [r for r in snapshot.ranks if r.alive]
        ranks = [r.rank for r in alive if r.rank in finding.ranks or not finding.ranks][: config.max_stacks]
        asked = [(r, urls[r.host]) for r in alive]
        answers = await client.evidence(session, asked, ranks, config.evidence_seconds, config.max_asked)
        self._books.of(snapshot).flights = flights(answers)
        gathered: dict[str, Any] = {"in_flight": flight.table(snapshot, answers)}
        if ranks:
            gathered["stacks"] = {str(rank): flight.without(answers[rank]) for rank in ranks}
        self._journal.attach(finding.id, gathered)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def flights(answers: dict[int, dict[str, Any]]) -> dict[int, Flight]:
    """The flight records out of the agents' answers, by rank; a rank that told none is left out."""
    told = {rank: answer.get("flight") for rank, answer in answers.items()}
    return {rank: msgspec.convert(record, Flight) for rank, record in told.items() if isinstance(record, dict)}
