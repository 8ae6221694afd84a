"""What the daemons of a stage answer, asked one at a time; a daemon that does not answer says nothing."""

from __future__ import annotations

import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec

from zmon.schema.agent import AgentReport
from zmon.schema.finding import Finding
from zmon.schema.job import JobView
from zmon.schema.rank import RankState
from zmon.web.client import FindingList, JobList

T = TypeVar("T")
TIMEOUT_SECONDS = 5.0
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a stage is on this machine


def ask(url: str, answer: type[T], **query: object) -> T | None:
    """GET a URL and decode its JSON; None where nobody answers as expected."""
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
    about = {} if job_id is None else {"job_id": job_id}
    found = ask(f"{hub}/api/v1/findings", FindingList, active=int(active), **about)
    return found.findings if found else []


def job(hub: str, job_id: str) -> JobView | None:
    """The hub's view of one job."""
    known = ask(f"{hub}/api/v1/jobs", JobList)
    return next((j for j in known.jobs if j.job_id == job_id), None) if known else None


def ranks(agents: Iterable[str], job_id: str) -> dict[int, RankState]:
    """What the agents say of one job's ranks."""
    reports = [ask(f"{agent}/api/v1/snapshot", AgentReport, job_id=job_id) for agent in agents]
    return {rank.rank: rank for report in reports if report for rank in report.ranks}


def query(prometheus: str, promql: str) -> list[dict[str, Any]]:
    """The result vector of a PromQL query."""
    answer = ask(f"{prometheus}/api/v1/query", dict, query=promql)
    return list(answer["data"]["result"]) if answer else []
