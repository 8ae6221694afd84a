"""The HTTP client of daemons.

`ask` and `get` send one request and return a typed answer, or raise an error of one line. `evidence` sends a request
for each rank and returns Unknown for a rank whose agent gives no evidence.
"""

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

_FORBIDDEN = 403
_REFUSED = (
    "its agent gives evidence only to the user of the job, root and --hub-user, over loopback: run a hub on that host"
)


async def ask(
    session: aiohttp.ClientSession,
    base: str,
    endpoint: Endpoint[Request, T],
    request: Request,
    timeout: float,
    accepted: Collection[int] = (),
) -> T:
    """Ask the daemon at `base` and return its answer. Raises NotServed for status 404, Unreachable for other failures.

    `accepted`: statuses other than 200 that come with the same answer, as an unhealthy daemon's 503 does.
    """
    url = base + endpoint.path_of(request)
    status, body = await _answer(session, url, timeout, endpoint.query_of(request))
    return _checked(url, status, body, endpoint.answer, accepted)


async def get(session: aiohttp.ClientSession, url: str, answer: type[T], timeout: float, **query: object) -> T:
    """Get a URL of a program other than zmon and decode its JSON. Raises the same errors as `ask`."""
    params = [(name, str(value)) for name, value in query.items() if value is not None]
    return _checked(url, *await _answer(session, url, timeout, params), answer)


def _checked(url: str, status: int, body: bytes, answer: type[T], accepted: Collection[int] = ()) -> T:
    if status != 200 and status not in accepted:
        error = NotServed if status == 404 else Unreachable
        raise error(f"{url} answered {status}", body[:200].decode("utf-8", "replace"))
    return _decoded(url, body, answer)


async def _answer(session: aiohttp.ClientSession, url: str, timeout: float, query: Query) -> tuple[int, bytes]:
    try:
        async with session.get(url, params=query, timeout=aiohttp.ClientTimeout(total=timeout)) as response:
            return response.status, await response.read()
    except TimeoutError as error:
        raise Unreachable(f"{url} did not answer within {timeout:g} s") from error
    except aiohttp.ClientConnectorError as error:
        number = error.errno or 0  # negative if the name was not resolved
        raise Unreachable(f"cannot reach {url}", os.strerror(number) if number > 0 else str(error)) from error
    except (aiohttp.ClientError, OSError) as error:
        raise Unreachable(f"cannot reach {url}", str(error) or type(error).__name__) from error


def _decoded(url: str, body: bytes, answer: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=answer)
    except msgspec.DecodeError as error:
        raise Unreachable(
            f"cannot understand the answer of {url}", str(error), "check which program and version listens there"
        ) from error


async def evidence(
    session: aiohttp.ClientSession,
    targets: Sequence[tuple[RankState, str]],
    stacks: Collection[int],
    seconds: float,
    concurrency: int,
) -> dict[int, RankEvidence | Unknown]:
    """Ask the agents for the evidence about ranks. Return it by rank, or Unknown with the reason why there is none.

    `targets`: each rank with the URL of its agent; `stacks`: the ranks whose Python stacks are wanted as well. Takes at
    most `seconds`, with at most `concurrency` requests in flight.
    """
    answers: dict[int, RankEvidence | Unknown] = {
        rank.rank: Unknown(f"no answer within {seconds:g} s") for rank, _ in targets
    }
    limit = asyncio.Semaphore(concurrency)

    async def ask_agent(rank: RankState, agent: str) -> None:
        request = EvidenceRequest(rank.job_id, str(rank.rank), rank.run_uid, rank.rank in stacks)
        url = agent + endpoints.EVIDENCE.path_of(request)
        async with limit:
            try:
                status, body = await _answer(session, url, seconds, endpoints.EVIDENCE.query_of(request))
                refused = status == _FORBIDDEN
                answers[rank.rank] = Unknown(_REFUSED) if refused else read_evidence(_checked(url, status, body, dict))
            except Unreachable as error:
                answers[rank.rank] = Unknown(str(error))

    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await asyncio.gather(*(ask_agent(rank, agent) for rank, agent in targets))
    return answers


def read_evidence(answer: dict[str, Any]) -> RankEvidence | Unknown:
    """Return the evidence in an agent's answer, or why it is unknown.

    If the agent's zmon is of another version and writes flight records in another form, only the flight record is lost.
    """
    try:
        return msgspec.convert(answer, RankEvidence)
    except msgspec.ValidationError as error:
        if answer.get("flight") is None:
            return Unknown(f"the agent's answer has another form: {error}")
        reason = f"the agent's flight record has another form: {error}"
        return read_evidence({**answer, "flight": None, "flight_error": reason})
