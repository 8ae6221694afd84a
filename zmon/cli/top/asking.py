"""One question to the hub: everything that one picture needs, at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import aiohttp

from zmon.cli.top.picture import Picture
from zmon.errors import NotServed, Unreachable
from zmon.schema.api import FindingsRequest, JobsRequest, RankRow, RanksRequest, endpoints
from zmon.web import client

TIMEOUT_SECONDS = 2.0

Ask = Callable[[str | None, float], Awaitable[Picture]]


@asynccontextmanager
async def hub(url: str) -> AsyncIterator[Ask]:
    """How to ask the hub there: with the job whose ranks are wanted, and the time. Raises Unreachable."""
    async with aiohttp.ClientSession() as session:

        async def ranks(job_id: str | None) -> tuple[tuple[RankRow, ...], str]:
            if job_id is None:
                return (), ""
            try:
                answer = await client.ask(session, url, endpoints.RANKS, RanksRequest(job_id), TIMEOUT_SECONDS)
                return tuple(answer.ranks), ""
            except NotServed:
                return (), "its ranks are not told: the hub is of another version, or the job is gone"
            except Unreachable as error:
                return (), f"its ranks are unknown: {error}"

        async def ask(job_id: str | None, now: float) -> Picture:
            jobs, found, (rows, why) = await asyncio.gather(
                client.ask(session, url, endpoints.JOBS, JobsRequest(), TIMEOUT_SECONDS),
                client.ask(session, url, endpoints.FINDINGS, FindingsRequest(active=True), TIMEOUT_SECONDS),
                ranks(job_id),
            )
            return Picture(now, jobs.blind, tuple(jobs.jobs), tuple(found.findings), job_id, rows, why)

        yield ask
