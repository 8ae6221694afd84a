"""What the pages ask of Prometheus and of the hub, and where those are: ZMON_PROMETHEUS_URL, ZMON_HUB_URL.

An answer, or Unreachable with one line on what is wrong; never a number made up.
"""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeVar, overload
from urllib.parse import quote, urlencode

import streamlit as st

from dashboards.address import REFRESH_SECONDS, Span
from dashboards.asking import (
    LONG_SECONDS,
    TIMEOUT_SECONDS,
    Answer,
    Param,
    Unreachable,
    ask,
    ask_anew,
    fetch,
    known,
    shown,
)
from dashboards.history import History, history

MOST_SERIES = 10  # of a chart: more cannot be told apart
KEPT_SECONDS = 60  # of an answer about the past; its next point is another question
KEPT = 300  # answers

T = TypeVar("T")
_PROMETHEUS = ("Prometheus", "ZMON_PROMETHEUS_URL")
_HUB = ("The hub", "ZMON_HUB_URL")


@dataclass(frozen=True)
class Sample:
    """One series at one instant; `at` is Prometheus's clock, in unix seconds."""

    labels: dict[str, str]
    value: float
    at: float


@dataclass(frozen=True)
class Prometheus:
    """The history of every number."""

    url: str = field(default_factory=lambda: os.environ.get("ZMON_PROMETHEUS_URL", "http://127.0.0.1:9090"))
    answers: bool = True  # did so a moment ago: else each question would wait for it

    @overload
    def now(self, promql: str) -> list[Sample]: ...

    @overload
    def now(self, promql: str, made: Callable[[list[Sample]], T]) -> T: ...

    def now(self, promql: str, made: Callable[[list[Sample]], object] = list) -> object:
        """The value of every series that matches, an empty list if none does; or what is `made` of it, once for all."""
        self._must_answer()
        return known(_now(self, promql, made))

    def then(self, promql: str, at: int) -> list[Sample]:
        """The same at that moment, which may look back for long."""
        self._must_answer()
        return known(_then(self, promql, at))

    def over(self, promql: str, legend: str, span: Span, most: int = MOST_SERIES, *, keep_low: bool = False) -> History:
        """Every series that matches, over time; of too many those that go highest, or lowest."""
        self._must_answer()
        return known(_over(self, promql, legend, span, most, keep_low))

    def _must_answer(self) -> None:
        if not self.answers:
            raise Unreachable("Prometheus does not answer. Is it running, and is ZMON_PROMETHEUS_URL right?")

    def asked_anew(self, endpoint: str, seconds: float, **params: Param) -> list[Answer]:
        """The series as Prometheus gives them."""
        answer = ask_anew(*_PROMETHEUS, self.url, endpoint, tuple(params.items()), seconds)
        data = answer.get("data")
        if not isinstance(data, dict) or not isinstance(data.get("result"), list):
            raise Unreachable(f"What answers at {shown(self.url)} is not Prometheus. Is ZMON_PROMETHEUS_URL right?")
        series: list[Answer] = data["result"]
        return series

    def link(self, promql: str, span: Span, *, is_now: bool) -> str:
        """Where people go on asking. What is of now stays the same however late it gets."""
        graph = {"g0.expr": promql, "g0.tab": 0, "g0.range_input": f"{span.end - span.start}s"}
        if not is_now:
            graph["g0.end_input"] = f"{datetime.fromtimestamp(span.end, UTC):%Y-%m-%d %H:%M:%S}"
        outside = _seen_from_outside(self) if self.answers else self.url
        return f"{shown(outside).rstrip('/')}/graph?{urlencode(graph)}"


# Answers are kept, and why there was none is kept for one refresh, so that twenty viewers do not wait for it in turn.


@st.cache_resource(ttl=REFRESH_SECONDS, max_entries=KEPT, show_spinner=False)
def _now(prometheus: Prometheus, promql: str, _made: Callable[[list[Sample]], T]) -> T | Unreachable:
    """Of one question always the same is made: the cache looks at no name that begins like this."""
    try:
        return _made(_samples(prometheus.asked_anew("query", TIMEOUT_SECONDS, query=promql)))
    except Unreachable as error:
        return error


@st.cache_resource(ttl=REFRESH_SECONDS, max_entries=KEPT, show_spinner=False)
def _then(prometheus: Prometheus, promql: str, at: int) -> list[Sample] | Unreachable:
    try:
        return _answered_then(prometheus, promql, at)
    except Unreachable as error:
        return error


@st.cache_resource(ttl=KEPT_SECONDS, max_entries=KEPT, show_spinner=False)
def _answered_then(prometheus: Prometheus, promql: str, at: int) -> list[Sample]:
    return _samples(prometheus.asked_anew("query", LONG_SECONDS, query=promql, time=at))


@st.cache_resource(ttl=REFRESH_SECONDS, max_entries=KEPT, show_spinner=False)
def _over(
    prometheus: Prometheus, promql: str, legend: str, span: Span, most: int, keep_low: bool
) -> History | Unreachable:
    try:
        return _answered_over(prometheus, promql, legend, span, most, keep_low)
    except Unreachable as error:
        return error


@st.cache_resource(ttl=KEPT_SECONDS, max_entries=KEPT, show_spinner=False)
def _answered_over(prometheus: Prometheus, promql: str, legend: str, span: Span, most: int, keep_low: bool) -> History:
    asked: dict[str, Param] = {"query": promql, "start": span.start, "end": span.end, "step": span.resolution}
    found = prometheus.asked_anew("query_range", LONG_SECONDS, **asked)
    return history(found, legend, span, most, keep_low=keep_low)


@st.cache_resource(ttl=KEPT_SECONDS, max_entries=KEPT, show_spinner=False)
def _seen_from_outside(prometheus: Prometheus) -> str:
    """Where a browser finds it: what it was told with --web.external-url, else where we do."""
    try:
        told = ask_anew(*_PROMETHEUS, prometheus.url, "status/flags", (), TIMEOUT_SECONDS).get("data")
    except Unreachable:  # what is asked like Prometheus need not have its flags
        return prometheus.url
    outside = told.get("web.external-url") if isinstance(told, dict) else None
    is_url = isinstance(outside, str) and outside.startswith(("http://", "https://"))
    return str(outside) if is_url else prometheus.url


def _samples(found: list[Answer]) -> list[Sample]:
    return [Sample(one["metric"], float(one["value"][1]), float(one["value"][0])) for one in found]


@dataclass(frozen=True)
class Hub:
    """The one that decides: which jobs there are, and who is to blame."""

    url: str = field(default_factory=lambda: os.environ.get("ZMON_HUB_URL", "http://127.0.0.1:9781"))

    def jobs(self) -> tuple[list[Answer], bool]:
        """Every job the hub knows, and whether it is blind: then this is what it saw last."""
        answer = self._answer("jobs", "jobs")
        return answer["jobs"], answer.get("blind", False)

    def findings(self, job_id: str | None = None) -> list[Answer]:
        """The active findings of all jobs, or all that there ever were of one; newest first, without evidence."""
        about: dict[str, Param] = {"active": 1} if job_id is None else {"job_id": job_id}
        return self._rows("findings", "findings", evidence=0, **about)

    def evidence(self, job_id: str) -> dict[str, Answer]:
        """By its id, what is known of each active finding of a job."""
        found = self._rows("findings", "findings", active=1, job_id=job_id)
        return {finding["id"]: finding["evidence"] for finding in found}

    def ranks(self, job_id: str) -> list[Answer]:
        """Every rank of a job as it was last seen."""
        return self._rows(f"jobs/{quote(job_id, safe='')}/ranks", "ranks")

    def scaling(self, job_id: str, **params: Param) -> Answer:
        """How fast jobs of its name were at each size, and what other sizes would be like."""
        return self._answer(f"jobs/{quote(job_id, safe='')}/scaling", "sizes", **params)

    def incidents(self) -> list[Answer]:
        """All that are kept, newest first."""
        return self._rows("incidents", "incidents")

    def report(self, incident: str) -> str:
        """An incident's page, which needs nothing beside it."""
        return _report(self, incident)

    def _rows(self, path: str, holds: str, **params: Param) -> list[Answer]:
        rows: list[Answer] = self._answer(path, holds, **params)[holds]
        return rows

    def _answer(self, path: str, holds: str, **params: Param) -> Answer:
        answer = ask(*_HUB, self.url, path, **params)
        if answer.get("schema") != 1 or not isinstance(answer.get(holds), list):
            raise Unreachable(f"What answers at {shown(self.url)} is no hub of this version. Is ZMON_HUB_URL right?")
        return answer


@st.cache_resource(ttl=KEPT_SECONDS, max_entries=20, show_spinner=False)
def _report(hub: Hub, incident: str) -> str:
    path = f"incidents/{quote(incident, safe='')}/report.html"
    return fetch(*_HUB, hub.url, path).decode("utf-8", errors="replace")


def quoted(label_value: str) -> str:
    """A label value that is safe inside PromQL: a job_id comes from the address bar."""
    return json.dumps(label_value, ensure_ascii=False)
