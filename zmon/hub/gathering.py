"""When a job stalls: what its ranks are stuck in, and what the culprits said last, asked behind the pass's back.

What is in flight is asked for just before the leases are over, so that the first verdict knows it: on a GPU it is most
of what there is to know. Of other findings the ranks go on: their stacks say nothing, and asking costs them. A dead
rank is asked for if it is to blame: its agent has the end of its stderr.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import aiohttp
from msgspec import UNSET

from zmon.hub.agent_link import AgentLink
from zmon.hub.config import HubConfig
from zmon.hub.flight_table import flight_table
from zmon.hub.job_state import JobStates
from zmon.hub.journal import Journal
from zmon.schema.api import RankEvidence
from zmon.schema.evidence import Evidence, RankStack, StderrTail
from zmon.schema.finding import Finding
from zmon.schema.flight import Flight
from zmon.schema.rank import RankState
from zmon.schema.snapshot import Snapshot
from zmon.schema.unknown import Unknown
from zmon.web import client

_AHEAD_SECONDS = 1.5  # of the end of a lease: a pass, and the answers


class Gathering:
    """Asks once for each verdict about a stall, and again when it says another thing."""

    def __init__(self, config: HubConfig, links: Sequence[AgentLink], journal: Journal, books: JobStates) -> None:
        self._config, self._links, self._journal, self._books = config, links, journal, books
        self._asked: dict[str, tuple[Any, ...]] = {}  # by finding: the verdict that evidence was gathered for
        self._tasks: dict[str, asyncio.Task[None]] = {}  # by finding: the last one
        self._ahead: dict[str, asyncio.Task[None]] = {}  # by job that nearly stalls

    def what_is_new(self, session: aiohttp.ClientSession, snapshot: Snapshot) -> None:
        """Start asking about this job where its verdict is new."""
        active = [finding for finding in self._journal.active() if finding.is_stall]
        self._asked = {f.id: self._asked[f.id] for f in active if f.id in self._asked}
        self._tasks = {finding_id: task for finding_id, task in self._tasks.items() if not task.done()}
        of_job = [finding for finding in active if finding.job_id == snapshot.job_id]
        if not of_job:
            self._look_ahead(session, snapshot)
        for finding in of_job:
            verdict = (finding.cause, finding.ranks, finding.step)
            if self._asked.get(finding.id) != verdict:
                self._asked[finding.id] = verdict
                self._tasks[finding.id] = asyncio.create_task(self._gather(session, snapshot, finding))

    async def done(self, finding_id: str) -> None:
        """Return once nobody is being asked about that finding."""
        while task := self._tasks.get(finding_id):
            await asyncio.wait([task])
            if self._tasks.get(finding_id) is task:
                del self._tasks[finding_id]

    def cancel(self) -> None:
        """The hub ends."""
        for task in (*self._tasks.values(), *self._ahead.values()):
            task.cancel()

    def _look_ahead(self, session: aiohttp.ClientSession, snapshot: Snapshot) -> None:
        """Ask once what is in flight where no rank has much left of its lease; forget it when one goes on."""
        alive = [r for r in snapshot.ranks if r.alive and r.activity != "done"]
        if not alive or not all(_nearly_overdue(r) for r in alive):
            self._books.of(snapshot).flights = {}
            if task := self._ahead.pop(snapshot.job_id, None):
                task.cancel()
        elif snapshot.job_id not in self._ahead:
            self._ahead[snapshot.job_id] = asyncio.create_task(self._take_flights(session, snapshot))

    async def _take_flights(self, session: aiohttp.ClientSession, snapshot: Snapshot) -> None:
        book = self._books.of(snapshot)
        book.flights = flights(await self._ask(session, snapshot, [r for r in snapshot.ranks if r.alive]))

    async def _ask(
        self,
        session: aiohttp.ClientSession,
        snapshot: Snapshot,
        ranks: Sequence[RankState],
        stacks: Collection[int] = (),
    ) -> dict[int, RankEvidence | Unknown]:
        config, urls = self._config, {link.report.host: link.url for link in self._links if link.report}
        asked = [(r, urls[r.host]) for r in ranks]
        return await client.evidence(session, asked, stacks, config.evidence_seconds, config.max_asked)

    async def _gather(self, session: aiohttp.ClientSession, snapshot: Snapshot, finding: Finding) -> None:
        """Stacks of the culprits, or of everybody where nobody is named, and what every rank has in flight."""
        book = self._books.of(snapshot)  # of this start: another may have begun when the answers are there
        alive = [r for r in snapshot.ranks if r.alive]
        ranks = [r for r in snapshot.ranks if r.rank in finding.ranks or (r.alive and not finding.ranks)]
        chosen = {r.rank for r in ranks[: self._config.max_stacks]}
        answers = await self._ask(session, snapshot, [r for r in snapshot.ranks if r.alive or r.rank in chosen], chosen)
        of_alive = {r.rank: answers[r.rank] for r in alive}
        book.flights = flights(of_alive)
        stacks = {str(rank): _stack(answers[rank]) for rank in sorted(chosen)}
        tails = {str(rank): _stderr(answers[rank]) for rank in sorted(chosen)}
        gathered = Evidence(
            in_flight=flight_table(snapshot, of_alive),
            stacks=stacks if chosen else UNSET,
            stderr_tail=tails if finding.ranks else UNSET,
        )
        self._journal.attach(finding.id, gathered)


def _nearly_overdue(state: RankState) -> bool:
    lease, spent = state.lease_seconds, state.step_seconds if state.activity == "train" else state.activity_seconds
    return lease is not None and spent > max(lease / 2, lease - _AHEAD_SECONDS)


def flights(answers: Mapping[int, RankEvidence | Unknown]) -> dict[int, Flight]:
    """The flight records out of the agents' answers, by rank; a rank without one is left out."""
    return {
        rank: answer.flight
        for rank, answer in answers.items()
        if isinstance(answer, RankEvidence) and answer.flight is not None
    }


def _stack(answer: RankEvidence | Unknown) -> RankStack:
    """What a rank is stuck in, as evidence of a finding: all but flight record and stderr, which lie elsewhere."""
    if isinstance(answer, Unknown):
        return RankStack(stack_error=answer.reason)
    return RankStack(
        job_id=answer.job_id,
        rank=answer.rank,
        run_uid=answer.run_uid,
        alive=answer.alive,
        pid=answer.pid,
        wchan=answer.wchan,
        stack=answer.stack,
        stack_error=answer.stack_error,
        schema=answer.schema,
    )


def _stderr(answer: RankEvidence | Unknown) -> StderrTail:
    """The end of a rank's stderr: `text`, or `error` why there is none; `path`, and whether it is `shared`."""
    if isinstance(answer, Unknown):
        return StderrTail(text=None, error=answer.reason, path=None, shared=False)
    return StderrTail(
        text=answer.stderr_tail,
        error=answer.stderr_error,
        path=answer.stderr_path or None,
        shared=bool(answer.stderr_shared),
    )
