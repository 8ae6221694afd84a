"""Asks the hub for the data that `zmon top` shows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from zmon.cli.top.panels import HubState
from zmon.errors import NotServed, Unreachable
from zmon.schema.api import FindingsRequest, JobsRequest, RankRow, RanksRequest, endpoints
from zmon.schema.http_config import HttpConfig
from zmon.web import client, http_client

TIMEOUT_SECONDS = 2.0
MAX_RANKS = 512  # rows of ranks; of more, those that stand out are requested

Ask = Callable[[str | None, float], Awaitable[HubState]]


@asynccontextmanager
async def connect(url: str, http: HttpConfig | None = None) -> AsyncIterator[Ask]:
    """Yield `ask(job_id, now)`: jobs, open findings, and the ranks of that job. `ask` raises Unreachable."""
    async with http_client.session(http) as session:

        async def ranks(job_id: str | None) -> tuple[tuple[RankRow, ...], str]:
            if job_id is None:
                return (), ""
            request = RanksRequest(job_id, MAX_RANKS, order="urgency")
            try:
                answer = await client.ask(session, url, endpoints.RANKS, request, TIMEOUT_SECONDS)
            except NotServed:
                return (), "ranks unknown: the hub has another version, or no longer knows the job"
            except Unreachable as error:
                return (), f"ranks unknown: {error}"
            more = answer.num_rows - len(answer.ranks)
            note = f"{more:,} more ranks, none of them more urgent; the page Ranks of the dashboard has all"
            return tuple(answer.ranks), note if more > 0 else ""

        async def ask(job_id: str | None, now: float) -> HubState:
            jobs, findings, (rows, why) = await asyncio.gather(
                client.ask(session, url, endpoints.JOBS, JobsRequest(), TIMEOUT_SECONDS),
                client.ask(session, url, endpoints.FINDINGS, FindingsRequest(active=True), TIMEOUT_SECONDS),
                ranks(job_id),
            )
            return HubState(now, jobs.blind, tuple(jobs.jobs), tuple(findings.findings), job_id, rows, why, jobs.as_of)

        yield ask
