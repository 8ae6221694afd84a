"""How to ask a daemon: one request, one typed answer, or one clear line why there is none."""

from __future__ import annotations

from typing import Any, TypeVar

import aiohttp
import msgspec

from zmon.errors import Unreachable
from zmon.records import AgentReport, Finding, JobView

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
