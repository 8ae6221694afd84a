"""One HTTP question: the typed answer, or one line saying who did not answer, where, why and what to do.

All viewers share the answers: however many look, a question is asked once a refresh. That somebody did not answer is
kept as well, so that twenty viewers do not wait for it twenty times. Nobody can change an answer: its types are frozen.
"""

import re
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar

import msgspec
import requests
import streamlit as st

from dashboards.address import REFRESH_SECONDS
from zmon.schema.api import Endpoint, Problem
from zmon.schema.names import SCHEMA

TIMEOUT_SECONDS = 1.0  # half of the page's refresh: with all dead the page still keeps its pace
LONG_SECONDS = 5.0  # for a range: a week of it is worth a moment
KEPT_ANSWERS = 1000

Query: TypeAlias = tuple[tuple[str, str | int], ...]


class Versioned(Protocol):
    """Every answer of the hub names the version of its shape."""

    @property
    def schema(self) -> int:
        """The version."""


T = TypeVar("T")
Request = TypeVar("Request", bound=msgspec.Struct)
HubAnswer = TypeVar("HubAnswer", bound=Versioned)


class Unreachable(Exception):
    """A source gave no usable answer; its text is the line that the page shows."""


@dataclass(frozen=True)
class Source:
    """Who answers: the hub, or Prometheus."""

    name: str
    variable: str  # the environment variable that people set its URL with
    url: str
    mistaken: str  # what it must be, if its JSON has another shape: "no hub of this version"

    @property
    def advice(self) -> str:
        """What to look at when it does not answer."""
        return f"Is it running, and is {self.variable} right?"

    def is_another(self) -> Unreachable:
        """The line for JSON of another shape."""
        return Unreachable(f"What answers at {shown(self.url)} is {self.mistaken}. Is {self.variable} right?")


def ask(hub: Source, endpoint: Endpoint[Request, HubAnswer], request: Request) -> HubAnswer:
    """Ask the hub, unless another viewer has just done so. Raises Unreachable."""
    path, query = endpoint.path_of(request), tuple(endpoint.query_of(request))
    answer = known(_shared(hub, path, query, endpoint.answer))
    if not isinstance(answer, endpoint.answer) or answer.schema != SCHEMA:
        raise hub.is_another()
    return answer


def known(answer: T | Unreachable) -> T:
    """The answer. Raises Unreachable: there was none."""
    if isinstance(answer, Unreachable):
        raise Unreachable(str(answer))
    return answer


def ask_anew(source: Source, path: str, query: Query, answer: type[T], seconds: float) -> T:
    """Ask, whatever other viewers were answered. Raises Unreachable."""
    content = fetch(source, path, query, seconds)
    try:
        return msgspec.json.decode(content, type=answer)
    except msgspec.ValidationError:
        raise source.is_another() from None
    except ValueError:
        raise Unreachable(f"{source.name} at {shown(source.url)} answered, but no JSON. {source.advice}") from None


@st.cache_resource(ttl=REFRESH_SECONDS, max_entries=KEPT_ANSWERS, show_spinner=False)
def _shared(source: Source, path: str, query: Query, _answer: type[object]) -> object:
    """The answer, or Unreachable. A path has one type of answer, so the cache need not look at `_answer`."""
    try:
        return ask_anew(source, path, query, _answer, TIMEOUT_SECONDS)
    except Unreachable as error:
        return error


def fetch(source: Source, path: str, query: Query = (), seconds: float = TIMEOUT_SECONDS) -> bytes:
    """What is at that path of the source. Raises Unreachable."""
    name, url, advice = source.name, source.url, source.advice
    try:
        response = requests.get(f"{url.rstrip('/')}{path}", params=query, timeout=seconds)
    except requests.Timeout:
        raise Unreachable(f"{name} at {shown(url)} did not answer within {seconds:g} s. {advice}") from None
    except requests.ConnectionError:
        raise Unreachable(f"{name} at {shown(url)} cannot be reached. {advice}") from None
    except (requests.RequestException, ValueError) as error:
        raise Unreachable(f"{name} cannot be asked at {shown(url)}: {type(error).__name__}. {advice}") from None
    if response.ok:
        return response.content
    if reason := _reason(response.content):  # it is there, and says what is wrong with the question
        raise Unreachable(f"{name} says: {reason}.")
    raise Unreachable(f"{name} at {shown(url)} answered {response.status_code} and no JSON. {advice}")


def shown(url: str) -> str:
    """A URL, or a text with one, without credentials, which do not belong on a page, whatever is in them."""
    return re.sub(r"//\S*@", "//", url)


def _reason(content: bytes) -> str:
    """Why there is no answer: the hub and Prometheus name it alike."""
    try:
        return msgspec.json.decode(content, type=Problem).error
    except ValueError:
        return ""
