"""How to ask a daemon: one request, one typed answer, or one clear line why there is none."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeVar

import aiohttp
import msgspec

from zmon.errors import NotServed, Unreachable
from zmon.schema.agent import AgentReport, AgentStatus
from zmon.schema.finding import Finding
from zmon.schema.job import JobView
from zmon.schema.rank import RankState
from zmon.schema.thresholds import Threshold

T = TypeVar("T")


class JobList(msgspec.Struct):
    """`GET /api/v1/jobs` of the hub."""

    jobs: list[JobView]
    blind: bool


class FindingList(msgspec.Struct):
    """`GET /api/v1/findings` of the hub."""

    findings: list[Finding]


class RankRow(msgspec.Struct):
    """One rank of a job as the hub last saw it. What the last whole step took is None where none is known."""

    rank: int
    host: str
    pid: int
    alive: bool
    process_state: str | None
    exit_status: str | None
    activity: str
    phase: str
    step: int
    op: str | None
    sequence: int | None
    state_seconds: float  # since the last change of phase or op
    overdue_seconds: float
    watched: bool = True  # its agent answers
    self_seconds: float | None = None
    exposed_seconds: float | None = None


class RankList(msgspec.Struct):
    """`GET /api/v1/jobs/<job_id>/ranks` of the hub."""

    ranks: list[RankRow]


class Amounts(msgspec.Struct):
    """A step of one rank, in a plan or in reality. None: not told, or not known yet."""

    lookups: float | None = None
    sent_bytes: float | None = None  # in all-to-alls
    received_bytes: float | None = None
    seconds: float | None = None  # of its own, waiting for nobody
    memory_bytes: float | None = None


class PlanRow(msgspec.Struct):
    """Plan and reality of one rank."""

    rank: int
    host: str
    tables: list[str]  # the first ones
    num_tables: int | None
    planned: Amounts | None
    measured: Amounts


class PlanTable(msgspec.Struct):
    """`GET /api/v1/jobs/<job_id>/plan` of the hub."""

    ranks: list[PlanRow]
    totals: dict[str, float] | None  # None: the trainer told no plan


class DetectorState(msgspec.Struct):
    """A detector: by job why it cannot speak of it, None where it can; and the last error where it fails."""

    name: str
    jobs: dict[str, str | None]
    failed: str | None = None


class DetectorList(msgspec.Struct):
    """`GET /api/v1/detectors` of the hub."""

    detectors: list[DetectorState]


class HubHealth(msgspec.Struct):
    """`GET /healthz` of the hub."""

    healthy: bool
    agents: list[AgentStatus]
    findings_unwritten: str | None = None
    version: str | None = None
    thresholds: list[Threshold] | None = None  # those its site changed; None: it does not tell


class Suspects(msgspec.Struct):
    """`GET /api/v1/suspects` of an agent: whom it suspects, and a number that changes with that."""

    version: int
    suspects: list[dict[str, Any]]


async def get(session: aiohttp.ClientSession, url: str, answer: type[T], timeout: float, **query: object) -> T:
    """GET a URL and decode the JSON. Raises Unreachable; NotServed for 404."""
    status, body = await _answer(session, url, timeout, query)
    if status != 200:
        refused = NotServed if status == 404 else Unreachable
        raise refused(f"{url} answered {status}", body[:200].decode("utf-8", "replace"))
    return _decoded(url, body, answer)


async def hub_health(session: aiohttp.ClientSession, hub: str, timeout: float) -> HubHealth:
    """How the hub does, also where it says 503 because it does badly. Raises Unreachable."""
    url = f"{hub}/healthz"
    return _decoded(url, (await _answer(session, url, timeout, {}))[1], HubHealth)


async def _answer(
    session: aiohttp.ClientSession, url: str, timeout: float, query: Mapping[str, object]
) -> tuple[int, bytes]:
    params = {name: str(value) for name, value in query.items() if value is not None}
    try:
        async with session.get(url, params=params, timeout=aiohttp.ClientTimeout(total=timeout)) as response:
            return response.status, await response.read()
    except TimeoutError as error:
        raise Unreachable(f"{url} did not answer within {timeout:g} s") from error
    except aiohttp.ClientConnectorError as error:
        number = error.errno or 0  # negative: a name that was not found
        raise Unreachable(f"cannot reach {url}", os.strerror(number) if number > 0 else str(error)) from error
    except (aiohttp.ClientError, OSError) as error:
        raise Unreachable(f"cannot reach {url}", str(error) or type(error).__name__) from error


def _decoded(url: str, body: bytes, answer: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=answer)
    except msgspec.DecodeError as error:
        raise Unreachable(
            f"cannot understand the answer of {url}", str(error), "is it a zmon daemon of this version?"
        ) from error


async def snapshot(
    session: aiohttp.ClientSession,
    agent: str,
    since: int | None,
    about: int | None,
    timeout: float,
    plans: str | None = None,
) -> AgentReport:
    """What one agent sees; with `since`, also step records newer than that cursor, `about` so many of each rank.
    Without its plans where they are those of version `plans` still."""
    url = f"{agent}/api/v1/snapshot"
    return await get(session, url, AgentReport, timeout, since=since, about=about, plans=plans)


async def evidence(
    session: aiohttp.ClientSession,
    asked: Sequence[tuple[RankState, str]],
    stacks: Collection[int],
    seconds: float,
    at_once: int,
) -> dict[int, dict[str, Any]]:
    """What ranks are stuck in, by rank, asked of the agent of each; the stacks only of some. Takes `seconds` at most.

    Where nobody answers, that is said in the place of each answer.
    """
    late = f"no answer within {seconds:g} s"
    answers: dict[int, dict[str, Any]] = {r.rank: {"stack_error": late, "flight_error": late} for r, _ in asked}
    room = asyncio.Semaphore(at_once)

    async def ask(rank: RankState, agent: str) -> None:
        url = f"{agent}/api/v1/evidence/{rank.job_id}/{rank.rank}"
        async with room:
            try:
                stacked = int(rank.rank in stacks)
                answers[rank.rank] = await get(session, url, dict, seconds, stacks=stacked, run=rank.run_uid)
            except Unreachable as error:
                answers[rank.rank] = {"stack_error": str(error), "flight_error": str(error)}

    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await asyncio.gather(*(ask(rank, agent) for rank, agent in asked))
    return answers
