"""Query the daemons of a stage over HTTP, on TCP or on a Unix socket. If one does not answer, the result is empty."""

from __future__ import annotations

import http.client
import socket
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from zmon.schema.act import Intent
from zmon.schema.api import Endpoint, FindingsRequest, IntentsRequest, JobsRequest, SnapshotRequest, endpoints
from zmon.schema.finding import Finding
from zmon.schema.job import JobView
from zmon.schema.rank import RankState
from zmon.web.client import basic_auth

T = TypeVar("T")
Request = TypeVar("Request", bound=msgspec.Struct)
TIMEOUT_SECONDS = 5.0


class _UnixConnection(http.client.HTTPConnection):
    """A connection to a Unix socket, whose path is in the place of the host."""

    def connect(self) -> None:
        """Connect. Raises OSError."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(urllib.parse.unquote(self.host))


class _UnixHandler(urllib.request.AbstractHTTPHandler):
    """Opens the URLs of `on_socket`."""

    unix_request = urllib.request.AbstractHTTPHandler.do_request_

    def unix_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        """Send a request, and return the answer. Raises OSError."""
        request.add_unredirected_header("Host", "localhost")  # daemons refuse the names of other machines
        return self.do_open(_UnixConnection, request)


def on_socket(path: Path) -> str:
    """Return the URL of a daemon that listens on a Unix socket."""
    return f"unix://{urllib.parse.quote(str(path), safe='')}"


# Without a proxy, because a stage is on this machine.
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}), _UnixHandler)


def ask(daemon: str, endpoint: Endpoint[Request, T], request: Request, seconds: float = TIMEOUT_SECONDS) -> T | None:
    """Return the answer of a daemon, or None if it does not answer or the answer does not have the expected form."""
    return _get(daemon + endpoint.path_of(request), endpoint.query_of(request), endpoint.answer, seconds)


def _get(url: str, query: Sequence[tuple[str, str]], answer: type[T], seconds: float = TIMEOUT_SECONDS) -> T | None:
    full_url = f"{url}?{urllib.parse.urlencode(query)}" if query else url
    try:
        with _direct.open(full_url, timeout=seconds) as response:
            return msgspec.json.decode(response.read(), type=answer)
    except (OSError, http.client.HTTPException, msgspec.DecodeError):
        return None


def is_healthy(url: str, login: tuple[str, str] | None = None) -> bool:
    """Return True if a GET of this URL is answered with status 200. `login`: user and password."""
    request = urllib.request.Request(url, headers=basic_auth(*login) if login else {})
    try:
        with _direct.open(request, timeout=TIMEOUT_SECONDS) as response:
            return bool(response.status == 200)
    except OSError:
        return False


def findings(hub: str, job_id: str | None, active: bool) -> list[Finding]:
    """Return the hub's findings about one job, or about any if `job_id` is None, newest first."""
    answer = ask(hub, endpoints.FINDINGS, FindingsRequest(job_id, active))
    return [*answer.findings] if answer else []


def intents(hub: str) -> tuple[Intent, ...] | None:
    """Return every intent of the hub, newest first, or None if it has no policy or does not answer."""
    answer = ask(hub, endpoints.INTENTS, IntentsRequest(limit=-1))
    return (*answer.intents,) if answer and answer.has_policy else None


def job(hub: str, job_id: str) -> JobView | None:
    """Return the hub's view of one job, or None."""
    answer = ask(hub, endpoints.JOBS, JobsRequest())
    return next((job for job in answer.jobs if job.job_id == job_id), None) if answer else None


def ranks(agents: Iterable[str], job_id: str) -> dict[int, RankState]:
    """Return the states of one job's ranks as the agents report them, by rank."""
    reports = [ask(agent, endpoints.SNAPSHOT, SnapshotRequest(job_id=job_id)) for agent in agents]
    return {rank.rank: rank for report in reports if report for rank in report.ranks}


def query(prometheus: str, promql: str) -> list[dict[str, Any]]:
    """Return the result vector of a PromQL query; empty if Prometheus does not answer."""
    answer = _get(f"{prometheus}/api/v1/query", [("query", promql)], dict)
    return list(answer["data"]["result"]) if answer else []
