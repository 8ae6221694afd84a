"""HTTP requests to the hub and Prometheus. They return a typed answer, or raise Unreachable with the cause.

The text of the error has a next step, or the reason of a server that rejects the request.

All viewers share the answers of `ask`: each request is sent once per refresh, however many viewers there are. A failure
is cached as well, so that twenty viewers do not wait for the same timeout twenty times. `ask_uncached` and `fetch`
cache nothing: the module `queries` caches their answers. The types of answers are frozen, since answers are shared.
"""

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import Protocol, TypeAlias, TypeVar

import msgspec
import requests
import streamlit as st

from dashboards.address import REFRESH_SECONDS
from dashboards.http_options import HttpOptions, http_options
from zmon.format import plain_json
from zmon.schema.api import Endpoint, Problem
from zmon.schema.api.endpoint import MAX_ANSWER_BYTES
from zmon.schema.http_config import VARIABLE, WITHOUT_TLS, Server, may_carry_credentials
from zmon.schema.names import SCHEMA

TIMEOUT_SECONDS = 1.0  # half of the refresh interval, so pages stay on time even if nothing answers
LONG_TIMEOUT_SECONDS = 5.0  # for queries about the past: a range of a week takes longer
CACHE_ENTRIES = 1000
_CHUNK_BYTES = 1 << 16
# msgspec 0.22 crashes the process if two threads decode a type for the first time at once.
_DECODER_LOCK = Lock()
BACKGROUND = ThreadPoolExecutor(4, "ask")  # shared by all viewers; it only fills the cache
_MAX_REASON_LETTERS = 300  # of a server's reason to reject a request

Query: TypeAlias = tuple[tuple[str, str | int], ...]


class Versioned(Protocol):
    """An answer of the hub. It contains the version of the schema."""

    @property
    def schema(self) -> int:
        """The version of the schema."""


T = TypeVar("T")
Request = TypeVar("Request", bound=msgspec.Struct)
HubAnswer = TypeVar("HubAnswer", bound=Versioned)


class Unreachable(Exception):
    """A source gave no usable answer. The text is the line that the page shows."""


class _Unusable(requests.RequestException):
    """The body of an answer cannot be used. The text has the reason."""


@dataclass(frozen=True)
class Source:
    """A server: the hub or Prometheus."""

    server: Server
    name: str
    variable: str  # the environment variable with its URL
    url: str
    mismatch: str  # what the server is if its JSON has another shape, such as "no hub of this version"

    @property
    def advice(self) -> str:
        """The next step if the server does not answer."""
        return f"Is it running, and is {self.variable} right?"

    def wrong_server(self) -> Unreachable:
        """Return the error for JSON of another shape."""
        url = without_credentials(self.url)
        return Unreachable(f"The server at {url} is {self.mismatch}. Is {self.variable} right?")


def ask(hub: Source, endpoint: Endpoint[Request, HubAnswer], request: Request) -> HubAnswer:
    """Return the answer of the hub, from the cache if it is younger than one refresh. Raises Unreachable."""
    path = endpoint.path_of(request)
    query = tuple(endpoint.query_of(request))
    answer = answer_or_raise(_cached(hub, path, query, endpoint.answer))
    if not isinstance(answer, endpoint.answer) or answer.schema != SCHEMA:
        raise hub.wrong_server()
    return answer


def answer_or_raise(answer: T | Unreachable) -> T:
    """Return the answer, or raise the Unreachable that is cached in its place."""
    if isinstance(answer, Unreachable):
        raise Unreachable(str(answer))
    return answer


def answer_or_error(send: Callable[[], T]) -> T | Unreachable:
    """Return the answer of this call, or the Unreachable that it raises, which can be cached."""
    try:
        return send()
    except Unreachable as error:
        return error


def ask_uncached(source: Source, path: str, query: Query, answer_type: type[T], timeout_seconds: float) -> T:
    """Send the request, and wait at most `timeout_seconds` for each part of its answer. Raises Unreachable."""
    content = fetch(source, path, query, timeout_seconds)
    try:
        return _decode(plain_json(content), answer_type)
    except msgspec.ValidationError:
        raise source.wrong_server() from None
    except (ValueError, RecursionError):
        url = without_credentials(source.url)
        raise Unreachable(f"{source.name} at {url} answered, but not with JSON. {source.advice}") from None


@st.cache_resource(ttl=REFRESH_SECONDS, max_entries=CACHE_ENTRIES, show_spinner=False)
def _cached(source: Source, path: str, query: Query, _answer_type: type[object]) -> object:
    """Return the answer, or Unreachable. `_answer_type` is not in the cache key: each path has one type of answer."""
    return answer_or_error(lambda: ask_uncached(source, path, query, _answer_type, TIMEOUT_SECONDS))


def fetch(source: Source, path: str, query: Query = (), timeout_seconds: float = TIMEOUT_SECONDS) -> bytes:
    """Return the body of the answer. Raises Unreachable."""
    name = source.name
    url = without_credentials(source.url)
    advice = source.advice
    try:
        options = http_options(source.server)
    except (OSError, ValueError) as error:
        raise Unreachable(f"{name} cannot be asked: the file in {VARIABLE} is unusable: {error}") from None
    has_credentials = bool(options.auth or options.headers or url != source.url)
    if has_credentials and not may_carry_credentials(source.url):
        raise Unreachable(f"{name} at {url} is not asked: {WITHOUT_TLS}. Write https:// in {source.variable}.")
    try:
        status, content = _get(f"{source.url.rstrip('/')}{path}", query, timeout_seconds, options)
    except requests.Timeout:
        raise Unreachable(f"{name} at {url} did not answer within {timeout_seconds:g} s. {advice}") from None
    except requests.exceptions.SSLError:
        raise Unreachable(f"{name} at {url} has a certificate that ca_file in {VARIABLE} does not trust") from None
    except requests.ConnectionError:
        raise Unreachable(f"{name} at {url} cannot be reached. {advice}") from None
    except _Unusable as error:
        raise Unreachable(f"{name} at {url} answered with {error}. {advice}") from None
    except (requests.RequestException, ValueError) as error:
        raise Unreachable(f"{name} at {url} cannot be asked: {type(error).__name__}. {advice}") from None
    if status == requests.codes.ok:
        return content
    if status == requests.codes.unauthorized:
        raise Unreachable(f"{name} at {url} wants a password, a token or a certificate: see {VARIABLE}")
    if reason := _reason(content):  # the server works, and rejects the request
        raise Unreachable(f"{name} rejects the request: {reason}.")
    raise Unreachable(f"{name} at {url} answered {status} without JSON. {advice}")


def _get(url: str, query: Query, timeout_seconds: float, options: HttpOptions) -> tuple[int, bytes]:
    """Return status and body. Raises requests.RequestException, also for a body that is compressed or too long."""
    with requests.Session() as session:
        session.trust_env = False
        response = session.get(
            url,
            params=query,
            timeout=timeout_seconds,
            allow_redirects=False,
            auth=options.auth,
            headers={"Accept-Encoding": "identity", **(options.headers or {})},
            verify=options.verify,
            cert=options.cert,
            stream=True,
        )
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise _Unusable("an encoding that was not asked for")
        content = bytearray()
        for chunk in response.iter_content(_CHUNK_BYTES):
            content += chunk
            if len(content) > MAX_ANSWER_BYTES:
                raise _Unusable(f"more than {MAX_ANSWER_BYTES >> 20} MiB")
        return response.status_code, bytes(content)


def without_credentials(url: str) -> str:
    """Return a URL, or a text with one, without its credentials, so that they never reach a page."""
    return re.sub(r"//\S*@", "//", url)


def _reason(content: bytes) -> str:
    """Return the reason in an error answer, or "" if it has none. The hub and Prometheus use the same field."""
    try:
        return _decode(plain_json(content), Problem).error[:_MAX_REASON_LETTERS]
    except (ValueError, RecursionError):
        return ""


def _decode(content: bytes, answer_type: type[T]) -> T:
    with _DECODER_LOCK:
        decoder = msgspec.json.Decoder(answer_type)
    return decoder.decode(content)
