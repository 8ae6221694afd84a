"""What the daemons of a stage answer, asked one at a time; a daemon that does not answer says nothing."""

from __future__ import annotations

import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from zmon.schema.api import Endpoint, FindingsRequest, JobsRequest, SnapshotRequest, endpoints
from zmon.schema.finding import Finding
from zmon.schema.job import JobView
from zmon.schema.rank import RankState

T = TypeVar("T")
Request = TypeVar("Request", bound=msgspec.Struct)
TIMEOUT_SECONDS = 5.0
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a stage is on this machine


def ask(daemon: str, endpoint: Endpoint[Request, T], request: Request) -> T | None:
    """Ask a daemon of zmon; None where nobody answers as expected."""
    return _get(daemon + endpoint.path_of(request), endpoint.query_of(request), endpoint.answer)


def _get(url: str, query: Sequence[tuple[str, str]], answer: type[T]) -> T | None:
    question = f"{url}?{urllib.parse.urlencode(query)}" if query else url
    try:
        with _direct.open(question, timeout=TIMEOUT_SECONDS) as response:
            return msgspec.json.decode(response.read(), type=answer)
    except (OSError, msgspec.DecodeError):
        return None


def answers(url: str) -> bool:
    """Whether a URL answers 200 now."""
    try:
        with _direct.open(url, timeout=TIMEOUT_SECONDS) as response:
            return bool(response.status == 200)
    except OSError:
        return False


def findings(hub: str, job_id: str | None, active: bool) -> list[Finding]:
    """The hub's findings about one job, or any, newest first."""
    answer = ask(hub, endpoints.FINDINGS, FindingsRequest(job_id, active))
    return [*answer.findings] if answer else []


def job(hub: str, job_id: str) -> JobView | None:
    """The hub's view of one job."""
    answer = ask(hub, endpoints.JOBS, JobsRequest())
    return next((job for job in answer.jobs if job.job_id == job_id), None) if answer else None


def ranks(agents: Iterable[str], job_id: str) -> dict[int, RankState]:
    """What the agents say of one job's ranks."""
    reports = [ask(agent, endpoints.SNAPSHOT, SnapshotRequest(job_id=job_id)) for agent in agents]
    return {rank.rank: rank for report in reports if report for rank in report.ranks}


def query(prometheus: str, promql: str) -> list[dict[str, Any]]:
    """The result vector of a PromQL query."""
    answer = _get(f"{prometheus}/api/v1/query", [("query", promql)], dict)
    return list(answer["data"]["result"]) if answer else []
