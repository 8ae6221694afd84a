"""How to ask a daemon: one request, one typed answer, or one clear line why there is none."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Sequence
from typing import Any, TypeVar

import aiohttp
import msgspec

from zmon.errors import Unreachable
from zmon.records import AgentReport, Finding, JobView, RankState

T = TypeVar("T")


class JobList(msgspec.Struct):
    """`GET /api/v1/jobs` of the hub."""

    jobs: list[JobView]
    blind: bool


class FindingList(msgspec.Struct):
    """`GET /api/v1/findings` of the hub."""

    findings: list[Finding]


class Suspects(msgspec.Struct):
    """`GET /api/v1/suspects` of an agent: whom it suspects, and a number that changes with that."""

    version: int
    suspects: list[dict[str, Any]]


async def get(session: aiohttp.ClientSession, url: str, answer: type[T], timeout: float, **query: object) -> T:
    """GET a URL and decode the JSON. Raises Unreachable."""
    params = {name: str(value) for name, value in query.items() if value is not None}
    try:
        limit = aiohttp.ClientTimeout(total=timeout)
        async with session.get(url, params=params, timeout=limit) as response:
            body = await response.read()
            if response.status != 200:
                raise Unreachable(f"{url} answered {response.status}", body[:200].decode("utf-8", "replace"))
            return msgspec.json.decode(body, type=answer)
    except TimeoutError as error:
        raise Unreachable(f"{url} did not answer within {timeout:g} s") from error
    except (aiohttp.ClientError, OSError) as error:
        raise Unreachable(f"cannot reach {url}", str(error) or type(error).__name__) from error
    except msgspec.DecodeError as error:
        raise Unreachable(
            f"cannot understand the answer of {url}", str(error), "is it a zmon daemon of this version?"
        ) from error


async def snapshot(session: aiohttp.ClientSession, agent: str, since: int | None, timeout: float) -> AgentReport:
    """What one agent sees; with `since`, also the step records newer than that cursor."""
    return await get(session, f"{agent}/api/v1/snapshot", AgentReport, timeout, since=since)


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
                answers[rank.rank] = await get(session, url, dict, seconds, stacks=int(rank.rank in stacks))
            except Unreachable as error:
                answers[rank.rank] = {"stack_error": str(error), "flight_error": str(error)}

    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await asyncio.gather(*(ask(rank, agent) for rank, agent in asked))
    return answers
