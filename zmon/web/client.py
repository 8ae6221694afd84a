"""How to ask a daemon: one request, one typed answer, or one clear line why there is none."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Collection, Sequence
from typing import Any, TypeVar

import aiohttp
import msgspec

from zmon.errors import NotServed, Unreachable
from zmon.schema.api import Endpoint, EvidenceRequest, RankEvidence, endpoints
from zmon.schema.rank import RankState
from zmon.schema.unknown import Unknown

T = TypeVar("T")
Request = TypeVar("Request", bound=msgspec.Struct)
Query = Sequence[tuple[str, str]]


async def ask(
    session: aiohttp.ClientSession,
    base: str,
    endpoint: Endpoint[Request, T],
    request: Request,
    timeout: float,
    also: Collection[int] = (),
) -> T:
    """Ask the daemon at `base`. Raises Unreachable; NotServed for 404.

    `also` are other statuses than 200 that come with the same answer: a daemon that does badly says how.
    """
    url = base + endpoint.path_of(request)
    status, body = await _answer(session, url, timeout, endpoint.query_of(request))
    return _checked(url, status, body, endpoint.answer, also)


async def get(session: aiohttp.ClientSession, url: str, answer: type[T], timeout: float, **query: object) -> T:
    """Ask a program that is not zmon's: GET a URL and decode the JSON. Raises Unreachable; NotServed for 404."""
    params = [(name, str(value)) for name, value in query.items() if value is not None]
    return _checked(url, *await _answer(session, url, timeout, params), answer)


def _checked(url: str, status: int, body: bytes, answer: type[T], also: Collection[int] = ()) -> T:
    if status != 200 and status not in also:
        refused = NotServed if status == 404 else Unreachable
        raise refused(f"{url} answered {status}", body[:200].decode("utf-8", "replace"))
    return _decoded(url, body, answer)


async def _answer(session: aiohttp.ClientSession, url: str, timeout: float, query: Query) -> tuple[int, bytes]:
    try:
        async with session.get(url, params=query, timeout=aiohttp.ClientTimeout(total=timeout)) as response:
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


async def evidence(
    session: aiohttp.ClientSession,
    asked: Sequence[tuple[RankState, str]],
    stacks: Collection[int],
    seconds: float,
    at_once: int,
) -> dict[int, RankEvidence | Unknown]:
    """What ranks are stuck in, by rank, asked of the agent of each; the stacks only of some. Takes `seconds` at most.

    Unknown where nobody answers.
    """
    answers: dict[int, RankEvidence | Unknown] = {
        rank.rank: Unknown(f"no answer within {seconds:g} s") for rank, _ in asked
    }
    room = asyncio.Semaphore(at_once)

    async def ask_one(rank: RankState, agent: str) -> None:
        request = EvidenceRequest(rank.job_id, str(rank.rank), rank.run_uid, rank.rank in stacks)
        url = agent + endpoints.EVIDENCE.path_of(request)
        async with room:
            try:
                status, body = await _answer(session, url, seconds, endpoints.EVIDENCE.query_of(request))
                answers[rank.rank] = read_evidence(_checked(url, status, body, dict))
            except Unreachable as error:
                answers[rank.rank] = Unknown(str(error))

    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await asyncio.gather(*(ask_one(rank, agent) for rank, agent in asked))
    return answers


def read_evidence(answer: dict[str, Any]) -> RankEvidence | Unknown:
    """The evidence in an agent's answer. A flight record that another version lays out otherwise costs the record, not
    the stacks beside it."""
    try:
        return msgspec.convert(answer, RankEvidence)
    except msgspec.ValidationError as error:
        if answer.get("flight") is None:
            return Unknown(f"its agent answers otherwise: {error}")
        return read_evidence({**answer, "flight": None, "flight_error": f"its agent tells it otherwise: {error}"})
