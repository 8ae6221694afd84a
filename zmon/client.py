"""The client of the hub's HTTP API, for other programs and for zmon's own commands.

`Hub` blocks; `AsyncHub` is for programs with an event loop. Both have the same calls. An answer is a type of
`zmon.schema.api` or `zmon.schema.incident`. A value of None is unknown or absent; it never means 0. All requests are
GET. A call raises Unreachable, with a message of one line, if the hub gives no usable answer. Its subclass NotServed
means that the hub does not know the subject of the request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

import aiohttp
import msgspec

from zmon.errors import UsageError
from zmon.schema import api
from zmon.schema.api import endpoints
from zmon.schema.http_config import Authorization, BasicAuth, HttpConfig, TlsConfig
from zmon.schema.incident import Capsule
from zmon.web.client import ask
from zmon.web.http_client import read_http_config, session

T = TypeVar("T")
Request = TypeVar("Request", bound=msgspec.Struct)


class _Connection:
    """The base of both clients: the address of a hub, and the options of its requests."""

    def __init__(
        self,
        url: str,
        *,
        token: str = "",
        ca: str | Path | None = None,
        http: HttpConfig | str | Path | None = None,
        timeout: float = 5.0,
        socket: Path | None = None,
    ) -> None:
        """`token`: a bearer token. `ca`: the file of the authorities that may have issued the hub's certificate.

        `http`: in place of both, the path of an `--http-config` file, or the section for the hub. `timeout`: of each
        request, in seconds. `socket`: the Unix socket at which the hub listens. Raises UsageError.
        """
        if http is not None and (token or ca):
            raise UsageError("a hub has both http and token or ca", "http says all of it", "Leave one of them out")
        if isinstance(http, str | Path):
            http = read_http_config(Path(http), "hub").hub or HttpConfig()
        elif http is None:
            authority = TlsConfig(ca_file=Path(ca)) if ca else None
            http = HttpConfig(authorization=Authorization(credentials=token) if token else None, tls_config=authority)
        self.url, self._http = _without_password(url.rstrip("/"), http)
        self._timeout, self._socket = timeout, socket

    def _new_session(self) -> aiohttp.ClientSession:
        return session(self._http, socket=self._socket)


class AsyncHub(_Connection):
    """A hub that is asked in an event loop: `async with AsyncHub(url) as hub: await hub.jobs()`."""

    async def __aenter__(self) -> AsyncHub:
        self._session = self._new_session()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def jobs(self) -> api.JobList:
        """Return a view of each job. This call and the others are described at `Hub`."""
        return await self._ask(endpoints.JOBS, api.JobsRequest())

    async def ranks(self, job_id: str, limit: int = -1, offset: int = 0, order: str = "rank") -> api.RankList:
        return await self._ask(endpoints.RANKS, api.RanksRequest(job_id, limit, offset, order))

    async def plan(self, job_id: str) -> api.PlanTable:
        return await self._ask(endpoints.PLAN, api.PlanRequest(job_id))

    async def findings(
        self, job_id: str | None = None, *, active: bool = False, evidence: bool = True
    ) -> api.FindingList:
        return await self._ask(endpoints.FINDINGS, api.FindingsRequest(job_id, active, evidence))

    async def incidents(self) -> api.IncidentList:
        return await self._ask(endpoints.INCIDENTS, api.IncidentsRequest())

    async def incident(self, incident_id: str) -> Capsule:
        return await self._ask(endpoints.INCIDENT, api.IncidentRequest(incident_id))

    async def ends(self, job_id: str | None = None, *, seconds: float = -1.0, limit: int = 200) -> api.EndList:
        return await self._ask(endpoints.ENDS, api.EndsRequest(job_id, seconds, limit))

    async def intents(self, job_id: str | None = None, *, limit: int = 200) -> api.IntentList:
        return await self._ask(endpoints.INTENTS, api.IntentsRequest(job_id, limit))

    async def _ask(self, endpoint: api.Endpoint[Request, T], request: Request) -> T:
        return await ask(self._session, self.url, endpoint, request, self._timeout)


class Hub(_Connection):
    """A hub that is asked one request at a time: `Hub(url).jobs()`."""

    def jobs(self) -> api.JobList:
        """Return a view of each job. While `blind` is True, no agent answers the hub, and the views are old."""
        return self._ask(endpoints.JOBS, api.JobsRequest())

    def ranks(self, job_id: str, limit: int = -1, offset: int = 0, order: str = "rank") -> api.RankList:
        """Return the last state of ranks of a job. `order`: a column, or `urgency`: culprits first. `limit` -1: all."""
        return self._ask(endpoints.RANKS, api.RanksRequest(job_id, limit, offset, order))

    def plan(self, job_id: str) -> api.PlanTable:
        """Return the planned and the measured amounts of each rank of a job."""
        return self._ask(endpoints.PLAN, api.PlanRequest(job_id))

    def findings(self, job_id: str | None = None, *, active: bool = False, evidence: bool = True) -> api.FindingList:
        """Return findings of a job or of all, newest first. `active`: only those that are not resolved."""
        return self._ask(endpoints.FINDINGS, api.FindingsRequest(job_id, active, evidence))

    def incidents(self) -> api.IncidentList:
        """Return a summary of each stored incident, newest first."""
        return self._ask(endpoints.INCIDENTS, api.IncidentsRequest())

    def incident(self, incident_id: str) -> Capsule:
        """Return all that is stored about an incident."""
        return self._ask(endpoints.INCIDENT, api.IncidentRequest(incident_id))

    def ends(self, job_id: str | None = None, *, seconds: float = -1.0, limit: int = 200) -> api.EndList:
        """Return how launches ended, newest first. `seconds`: only of so many last seconds; below 0: of any time."""
        return self._ask(endpoints.ENDS, api.EndsRequest(job_id, seconds, limit))

    def intents(self, job_id: str | None = None, *, limit: int = 200) -> api.IntentList:
        """Return intents to act, newest first, and the score of each cause."""
        return self._ask(endpoints.INTENTS, api.IntentsRequest(job_id, limit))

    def _ask(self, endpoint: api.Endpoint[Request, T], request: Request) -> T:
        async def answer() -> T:
            async with self._new_session() as opened:
                return await ask(opened, self.url, endpoint, request, self._timeout)

        return _run(answer())


def _run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, in another thread if this one has an event loop, as that of a notebook has."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()


def _without_password(url: str, http: HttpConfig) -> tuple[str, HttpConfig]:
    """Return the URL without user and password, because errors repeat it, and the configuration with them."""
    try:
        parts = urlsplit(url)
    except ValueError:  # it is not a URL, which the first request says
        return url, http
    if parts.username is None:
        return url, http
    if not http.credentials_key:
        user = BasicAuth(unquote(parts.username), unquote(parts.password or ""))
        http = msgspec.structs.replace(http, basic_auth=user)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl(), http


__all__ = ["AsyncHub", "Hub"]
