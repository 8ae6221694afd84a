"""What the pages ask of Prometheus and of the hub, and where those are: ZMON_PROMETHEUS_URL, ZMON_HUB_URL.

An answer, or Unreachable with one line on what is wrong; never a number made up.
"""

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeVar, overload
from urllib.parse import urlencode

import streamlit as st

from dashboards.address import REFRESH_SECONDS, Span
from dashboards.asking import (
    LONG_SECONDS,
    TIMEOUT_SECONDS,
    Query,
    Source,
    Unreachable,
    ask,
    ask_anew,
    fetch,
    known,
    shown,
)
from dashboards.history import History, history
from dashboards.prometheus_answers import Answer, Flags, InstantSeries, Matrix, Vector
from zmon.schema.api import (
    FindingsRequest,
    IncidentRequest,
    IncidentsRequest,
    JobList,
    JobsRequest,
    RankRow,
    RanksRequest,
    ScalingAnswer,
    ScalingRequest,
    endpoints,
)
from zmon.schema.finding import Finding
from zmon.schema.incident import Brief

MOST_SERIES = 10  # of a chart: more cannot be told apart
KEPT_SECONDS = 60  # of an answer about the past; its next point is another question
KEPT = 300  # answers

T = TypeVar("T")


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

    @property
    def source(self) -> Source:
        """Who is asked."""
        return Source("Prometheus", "ZMON_PROMETHEUS_URL", self.url, mistaken="not Prometheus")

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
        return _made(_samples(prometheus, TIMEOUT_SECONDS, (("query", promql),)))
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
    return _samples(prometheus, LONG_SECONDS, (("query", promql), ("time", at)))


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
    query = (("query", promql), ("start", span.start), ("end", span.end), ("step", span.resolution))
    answer = ask_anew(prometheus.source, "/api/v1/query_range", query, Answer[Matrix], LONG_SECONDS)
    return history(answer.data.result, legend, span, most, keep_low=keep_low)


@st.cache_resource(ttl=KEPT_SECONDS, max_entries=KEPT, show_spinner=False)
def _seen_from_outside(prometheus: Prometheus) -> str:
    """Where a browser finds it: what it was told with --web.external-url, else where we do."""
    try:
        flags = ask_anew(prometheus.source, "/api/v1/status/flags", (), Answer[Flags], TIMEOUT_SECONDS).data
    except Unreachable:  # what is asked like Prometheus need not have its flags
        return prometheus.url
    is_url = flags.external_url.startswith(("http://", "https://"))
    return flags.external_url if is_url else prometheus.url


def _samples(prometheus: Prometheus, seconds: float, query: Query) -> list[Sample]:
    answer = ask_anew(prometheus.source, "/api/v1/query", query, Answer[Vector], seconds)
    return [_sample(series) for series in answer.data.result]


def _sample(series: InstantSeries) -> Sample:
    time, value = series.value
    return Sample(series.metric, float(value), time)


@dataclass(frozen=True)
class Hub:
    """The one that decides: which jobs there are, and who is to blame."""

    url: str = field(default_factory=lambda: os.environ.get("ZMON_HUB_URL", "http://127.0.0.1:9781"))

    @property
    def source(self) -> Source:
        """Who is asked."""
        return Source("The hub", "ZMON_HUB_URL", self.url, mistaken="no hub of this version")

    def jobs(self) -> JobList:
        """Every job the hub knows, and whether it is blind: then this is what it saw last."""
        return ask(self.source, endpoints.JOBS, JobsRequest())

    def findings(self, job_id: str | None = None) -> Sequence[Finding]:
        """The active findings of all jobs, or all that there ever were of one; newest first, without evidence."""
        request = FindingsRequest(job_id, active=job_id is None, evidence=False)
        return ask(self.source, endpoints.FINDINGS, request).findings

    def with_evidence(self, job_id: str) -> Sequence[Finding]:
        """The active findings of a job with all that is known of each, newest first."""
        return ask(self.source, endpoints.FINDINGS, FindingsRequest(job_id, active=True)).findings

    def ranks(self, job_id: str) -> Sequence[RankRow]:
        """Every rank of a job as it was last seen."""
        return ask(self.source, endpoints.RANKS, RanksRequest(job_id)).ranks

    def scaling(self, job_id: str, what_if: tuple[str, ...] = ()) -> ScalingAnswer:
        """How fast jobs of its name were at each size, and what other sizes would be like."""
        return ask(self.source, endpoints.SCALING, ScalingRequest(job_id, what_if=what_if))

    def incidents(self) -> Sequence[Brief]:
        """All that are kept, newest first."""
        return ask(self.source, endpoints.INCIDENTS, IncidentsRequest()).incidents

    def report(self, incident: str) -> str:
        """An incident's page, which needs nothing beside it."""
        return _report(self, incident)


@st.cache_resource(ttl=KEPT_SECONDS, max_entries=20, show_spinner=False)
def _report(hub: Hub, incident: str) -> str:
    path = f"{endpoints.INCIDENT.path_of(IncidentRequest(incident))}/report.html"
    return fetch(hub.source, path).decode("utf-8", errors="replace")


def quoted(label_value: str) -> str:
    """A label value that is safe inside PromQL: a job_id comes from the address bar."""
    return json.dumps(label_value, ensure_ascii=False)
