"""Query the daemons of a stage over HTTP, on TCP or on a Unix socket. If one does not answer, the result is empty."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import msgspec

from zmon.errors import Unreachable
from zmon.schema.act import Intent
from zmon.schema.api import Endpoint, FindingsRequest, IntentsRequest, JobsRequest, SnapshotRequest, endpoints
from zmon.schema.finding import Finding
from zmon.schema.http_config import BasicAuth, HttpConfig
from zmon.schema.job import JobView
from zmon.schema.rank import RankState
from zmon.web import client
from zmon.web.http_client import session

T = TypeVar("T")
Request = TypeVar("Request", bound=msgspec.Struct)
Daemon = str | Path  # the URL of a daemon, or the Unix socket at which it listens
TIMEOUT_SECONDS = 5.0


def _answer(
    daemon: Daemon, send: Callable[[aiohttp.ClientSession, str], Awaitable[T]], http: HttpConfig | None = None
) -> T | None:
    """Return what `send` returns for a session and a URL, or None if it raises Unreachable."""
    socket, url = (daemon, "http://localhost") if isinstance(daemon, Path) else (None, daemon)

    async def send_in_session() -> T:
        async with session(http, socket=socket) as http_session:
            return await send(http_session, url)

    try:
        return asyncio.run(send_in_session())
    except Unreachable:
        return None


def ask(daemon: Daemon, endpoint: Endpoint[Request, T], request: Request, seconds: float = TIMEOUT_SECONDS) -> T | None:
    """Return the answer of a daemon, or None if it does not answer or the answer does not have the expected form."""
    return _answer(daemon, lambda http_session, url: client.ask(http_session, url, endpoint, request, seconds))


def is_healthy(url: str, login: tuple[str, str] | None = None) -> bool:
    """Return True if a GET of this URL is answered with status 200. `login`: user and password."""

    async def is_ok(http_session: aiohttp.ClientSession, url: str) -> bool:
        with client.unreachable(url, TIMEOUT_SECONDS):
            async with http_session.get(url, timeout=aiohttp.ClientTimeout(TIMEOUT_SECONDS)) as response:
                return response.status == 200

    return bool(_answer(url, is_ok, HttpConfig(basic_auth=BasicAuth(*login)) if login else None))


def findings(hub: Daemon, job_id: str | None, active: bool) -> list[Finding]:
    """Return the hub's findings about one job, or about any if `job_id` is None, newest first."""
    answer = ask(hub, endpoints.FINDINGS, FindingsRequest(job_id, active))
    return [*answer.findings] if answer else []


def intents(hub: Daemon) -> tuple[Intent, ...] | None:
    """Return every intent of the hub, newest first, or None if it has no policy or does not answer."""
    answer = ask(hub, endpoints.INTENTS, IntentsRequest(limit=-1))
    return (*answer.intents,) if answer and answer.has_policy else None


def job(hub: Daemon, job_id: str) -> JobView | None:
    """Return the hub's view of one job, or None."""
    answer = ask(hub, endpoints.JOBS, JobsRequest())
    return next((job for job in answer.jobs if job.job_id == job_id), None) if answer else None


def ranks(agents: Iterable[Daemon], job_id: str) -> dict[int, RankState]:
    """Return the states of one job's ranks as the agents report them, by rank."""
    reports = [ask(agent, endpoints.SNAPSHOT, SnapshotRequest(job_id=job_id)) for agent in agents]
    return {rank.rank: rank for report in reports if report for rank in report.ranks}


def query(prometheus: str, promql: str) -> list[dict[str, Any]]:
    """Return the result vector of a PromQL query; empty if Prometheus does not answer."""
    url = f"{prometheus}/api/v1/query"
    answer = _answer(
        url, lambda http_session, url: client.get(http_session, url, dict[str, Any], TIMEOUT_SECONDS, query=promql)
    )
    return list(answer["data"]["result"]) if answer else []
