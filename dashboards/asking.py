"""One HTTP question: the answer, or one line saying who did not answer, where, why and what to do.

All viewers share the answers: however many look, a question is asked once a refresh. That somebody did not answer is
kept as well, so that twenty viewers do not wait for it twenty times. Nobody may change an answer.
"""

import re
from typing import Any, TypeAlias, TypeVar

import msgspec
import requests
import streamlit as st

from dashboards.address import REFRESH_SECONDS

TIMEOUT_SECONDS = 1.0  # half of the page's refresh: with all dead the page still keeps its pace
LONG_SECONDS = 5.0  # for a range: a week of it is worth a moment
KEPT_ANSWERS = 1000

T = TypeVar("T")
Answer: TypeAlias = dict[str, Any]  # a JSON object of the hub's or of Prometheus's, as it came
Param: TypeAlias = str | int | float | tuple[str, ...]  # of a URL's query; of several each is written
Params: TypeAlias = tuple[tuple[str, Param], ...]


class Unreachable(Exception):
    """A source gave no usable answer; its text is the line that the page shows."""


def ask(name: str, variable: str, url: str, path: str, /, **params: Param) -> Answer:
    """The JSON object at `url`/api/v1/`path`. Raises Unreachable. `variable` is where people set the URL."""
    return known(_shared(name, variable, url, path, tuple(sorted(params.items()))))


def known(answer: T | Unreachable) -> T:
    """The answer. Raises Unreachable: there was none."""
    if isinstance(answer, Unreachable):
        raise Unreachable(str(answer))
    return answer


def ask_anew(name: str, variable: str, url: str, path: str, params: Params, seconds: float) -> Answer:
    """As `ask`, without a look at what others were told."""
    content = fetch(name, variable, url, path, params, seconds)
    try:
        answer = msgspec.json.decode(content)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise Unreachable(f"{name} at {shown(url)} answered, but no JSON. {_advice(variable)}")
    return answer


@st.cache_resource(ttl=REFRESH_SECONDS, max_entries=KEPT_ANSWERS, show_spinner=False)
def _shared(name: str, variable: str, url: str, path: str, params: Params) -> Answer | Unreachable:
    try:
        return ask_anew(name, variable, url, path, params, TIMEOUT_SECONDS)
    except Unreachable as error:
        return error


def fetch(
    name: str,
    variable: str,
    url: str,
    path: str,
    params: Params = (),
    seconds: float = TIMEOUT_SECONDS,
) -> bytes:
    """What is at `url`/api/v1/`path`. Raises Unreachable."""
    advice = _advice(variable)
    try:
        response = requests.get(f"{url.rstrip('/')}/api/v1/{path}", params=params, timeout=seconds)
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


def _advice(variable: str) -> str:
    return f"Is it running, and is {variable} right?"


def _reason(content: bytes) -> str:
    try:
        answer = msgspec.json.decode(content)
    except ValueError:
        return ""
    return str(answer.get("error", "")) if isinstance(answer, dict) else ""
