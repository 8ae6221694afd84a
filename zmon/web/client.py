"""The HTTP client of daemons.

`ask` and `get` send one request and return a typed answer, or raise an error of one line. `evidence` sends a request
for each rank and returns Unknown for a rank whose agent gives no evidence.

The other side is not trusted. Redirects are not followed. No encoding is accepted that makes a small body large, and a
body is read only up to its limit. An error repeats nothing that the other side sent, except the line of a zmon daemon.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import errno
import os
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import aiohttp
import msgspec

from zmon.errors import NotListening, NotServed, Unreachable
from zmon.schema.api import Endpoint, EvidenceRequest, Problem, RankEvidence, SnapshotRequest, endpoints
from zmon.schema.api.agent import AgentReport
from zmon.schema.api.endpoint import MAX_ANSWER_BYTES
from zmon.schema.api.packed import CONTENT_TYPE, Resting, unpack
from zmon.schema.api.received import Undecodable, decode
from zmon.schema.names import SCHEMA
from zmon.schema.rank import RankState
from zmon.schema.unknown import Unknown

T = TypeVar("T")
Request = TypeVar("Request", bound=msgspec.Struct)
Query = Sequence[tuple[str, str]]
_MAX_LINE_LETTERS = 300  # of the line of a daemon that refuses
_PART_BYTES = 1 << 16  # of a body, read at a time
_CERTIFICATES = "Check ca_file, server_name and the certificate in --http-config"
# The evidence about a rank with an answer that is not decoded yet: see `read_evidence`.
_RAW_EVIDENCE: Endpoint[EvidenceRequest, dict[str, Any]] = Endpoint(
    "agent", endpoints.EVIDENCE.path, EvidenceRequest, dict, endpoints.EVIDENCE.summary, endpoints.EVIDENCE.max_bytes
)
HEADERS = {"Accept-Encoding": "identity"}  # of each request: no answer is decompressed


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
    body = msgspec.json.encode(request) if endpoint.method == "POST" else None
    answer = await _answer(session, url, timeout, endpoint.query_of(request), endpoint.max_bytes, body=body)
    if answer.status != 200 and answer.status not in accepted:
        raise _refused(url, answer.status, _daemon_line(answer.body))
    return _decoded(url, answer.body, endpoint.answer)


async def ask_report(
    session: aiohttp.ClientSession, base: str, request: SnapshotRequest, timeout: float, resting: Resting
) -> tuple[AgentReport, Resting]:
    """Ask an agent for its report in packed form. Return it, and the resting rows for its next packed report.

    `resting`: the rows whose version the request says. An agent of another version answers with JSON all the same.
    Raises Undecodable if a part of a packed report cannot be decoded, and the errors of `ask`.
    """
    endpoint = endpoints.SNAPSHOT
    url = base + endpoint.path
    answer = await _answer(session, url, timeout, endpoint.query_of(request), endpoint.max_bytes, accept=CONTENT_TYPE)
    if answer.status != 200:
        raise _refused(url, answer.status, _daemon_line(answer.body))
    if answer.content_type == CONTENT_TYPE:
        return unpack(answer.body, resting)
    return _decoded(url, answer.body, endpoint.answer), Resting()


async def get(session: aiohttp.ClientSession, url: str, answer: type[T], timeout: float, **query: object) -> T:
    """Get a URL of a program other than zmon and decode its JSON. Raises the same errors as `ask`."""
    params = [(name, str(value)) for name, value in query.items() if value is not None]
    response = await _answer(session, url, timeout, params, MAX_ANSWER_BYTES)
    if response.status != 200:
        raise _refused(url, response.status)
    return _decoded(url, response.body, answer, lines=True)


def _refused(url: str, status: int, line: str = "") -> Unreachable:
    """Return the error of a status other than 200, with the line of the daemon."""
    error_class = NotServed if status == 404 else Unreachable
    next_step = "Give a password, token or certificate in --http-config" if status == 401 else ""
    return error_class(f"{url} answered {status}", line, next_step)


def _daemon_line(body: bytes) -> str:
    """Return the line of a daemon that refuses a request; empty if the body is not a daemon's."""
    try:
        answer = decode(body, Problem)
    except Undecodable:
        return ""
    return answer.error[:_MAX_LINE_LETTERS] if answer.schema == SCHEMA else ""


class _Answer(NamedTuple):
    status: int
    body: bytes
    content_type: str


async def _answer(
    session: aiohttp.ClientSession,
    url: str,
    timeout: float,
    query: Query,
    max_bytes: int,
    accept: str = "*/*",
    body: bytes | None = None,
) -> _Answer:
    """Send a GET, or a POST if it has a body."""
    headers = {**HEADERS, "Accept": accept}
    if body is not None:
        headers["Content-Type"] = "application/json"
    with unreachable(url, timeout):
        async with session.request(
            "GET" if body is None else "POST",
            url,
            params=query,
            data=body,
            timeout=_timeout(timeout),
            headers=headers,
            allow_redirects=False,
            auto_decompress=False,
        ) as response:
            return _Answer(response.status, await read(response, url, max_bytes), response.content_type)


@lru_cache(16)
def _timeout(seconds: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=seconds)


async def read(response: aiohttp.ClientResponse, url: str, max_bytes: int) -> bytes:
    """Return the body of a response. Raises Unreachable once it is longer than `max_bytes`; the rest is not read."""
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise Unreachable(f"{url} answered in an encoding that was not asked for")
    if response.content_length is not None and response.content_length <= max_bytes:
        return await response.read()  # no more than announced
    parts = []
    size = 0
    async for part in response.content.iter_chunked(_PART_BYTES):
        parts.append(part)
        size += len(part)
        if size > max_bytes:
            raise Unreachable(f"{url} answered with more than {max_bytes >> 20} MiB")
    return b"".join(parts)


def _decoded(url: str, body: bytes, answer: type[T], lines: bool = False) -> T:
    try:
        return decode(body, answer, lines)
    except Undecodable as error:
        next_step = "check which program and version listens there"
        raise Unreachable(f"cannot understand the answer of {url}", str(error), next_step) from error


def basic_auth(user: str, password: str) -> dict[str, str]:
    """Return the headers of a request with a password."""
    return {"Authorization": f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"}


async def evidence(
    session: aiohttp.ClientSession,
    targets: Sequence[tuple[RankState, str]],
    stacks: Collection[int],
    seconds: float,
    concurrency: int,
    flights: bool = True,
) -> dict[int, RankEvidence | Unknown]:
    """Ask the agents for the evidence about ranks. Return it by rank, or Unknown with the reason why there is none.

    `targets`: each rank with the URL of its agent; `stacks`: the ranks whose Python stacks are wanted as well;
    `flights`: flight records are wanted. Takes at most `seconds`, with at most `concurrency` requests in flight.
    """
    answers: dict[int, RankEvidence | Unknown] = {
        rank.rank: Unknown(f"no answer within {seconds:g} s") for rank, _ in targets
    }
    limit = asyncio.Semaphore(concurrency)

    async def ask_agent(rank: RankState, agent: str) -> None:
        request = EvidenceRequest(rank.job_id, str(rank.rank), rank.run_uid, rank.rank in stacks, flights)
        try:
            async with limit:
                answer = await ask(session, agent, _RAW_EVIDENCE, request, seconds)
            answers[rank.rank] = read_evidence(answer)
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


@contextlib.contextmanager
def unreachable(url: str, seconds: float, certificates: str = _CERTIFICATES) -> Iterator[None]:
    """Raise Unreachable in place of the errors that aiohttp and the system raise.

    `seconds`: the time limit of the request; `certificates`: the next step if TLS fails.
    """
    try:
        yield
    except TimeoutError as error:
        raise Unreachable(f"{url} did not answer within {seconds:g} s") from error
    except (aiohttp.ClientConnectorCertificateError, aiohttp.ClientConnectorSSLError) as error:
        cause = getattr(error, "certificate_error", None) or getattr(error, "os_error", error)
        reason = getattr(cause, "verify_message", "") or getattr(cause, "reason", None) or str(cause)
        if reason == "WRONG_VERSION_NUMBER":
            raise Unreachable(f"cannot reach {url}", "that port has no TLS", "Write http:// in its URL") from error
        raise Unreachable(f"cannot reach {url}", reason.rstrip("."), certificates) from error
    except aiohttp.ServerDisconnectedError as error:
        is_plain = url.startswith("http://")
        guess = "that port may have TLS: write https://" if is_plain else "it may not accept the client certificate"
        raise Unreachable(f"cannot reach {url}", f"it closed the connection; {guess}") from error
    except aiohttp.ClientConnectorError as error:
        number = error.errno or 0  # negative if the name was not resolved
        error_class = NotListening if number == errno.ECONNREFUSED else Unreachable
        raise error_class(f"cannot reach {url}", os.strerror(number) if number > 0 else str(error)) from error
    except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError) as error:
        raise Unreachable(f"cannot reach {url}", "it is not a valid URL", "write it as http://HOST:PORT") from error
    except (aiohttp.ClientResponseError, ValueError) as error:  # not HTTP; the text repeats what was sent
        raise Unreachable(f"cannot reach {url}", "its answer is not HTTP") from error
    except (aiohttp.ClientError, OSError) as error:
        raise Unreachable(f"cannot reach {url}", str(error) or type(error).__name__) from error
