"""Queries to Prometheus and the hub, whose URLs are in ZMON_PROMETHEUS_URL and ZMON_HUB_URL.

A query returns an answer or raises Unreachable with one line about the reason. It never makes up a number.
"""

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeVar
from urllib.parse import urlencode

import streamlit as st

from dashboards.address import REFRESH_SECONDS, Span
from dashboards.history import History, history
from dashboards.http_requests import (
    LONG_TIMEOUT_SECONDS,
    TIMEOUT_SECONDS,
    Query,
    Source,
    Unreachable,
    answer_or_error,
    answer_or_raise,
    ask,
    ask_uncached,
    fetch,
    without_credentials,
)
from dashboards.prometheus_answers import Answer, Flags, Matrix, Vector
from zmon.schema import api
from zmon.schema.act import Intent
from zmon.schema.finding import Finding
from zmon.schema.incident import IncidentSummary

MAX_SERIES = 10  # lines on one chart; people cannot distinguish more colours
CACHE_SECONDS = 60  # an answer about a fixed time range stays valid, and the next range is another query
CACHE_ENTRIES = 300

T = TypeVar("T")


@dataclass(frozen=True)
class Sample:
    """One series at one instant. `time` is in unix seconds by the clock of Prometheus."""

    labels: dict[str, str]
    value: float
    time: float


@dataclass(frozen=True)
class Prometheus:
    """A client of Prometheus, which has the history of every number."""

    url: str = field(default_factory=lambda: os.environ.get("ZMON_PROMETHEUS_URL", "http://127.0.0.1:9090"))
    answers: bool = True  # False: a query has just failed, so further queries fail at once instead of waiting

    def query(self, promql: str) -> list[Sample]:
        """Return the current value of every series."""
        return self.query_converted(promql, list)

    def query_converted(self, promql: str, convert: Callable[[list[Sample]], T]) -> T:
        """Return the result of `convert` for the current values. The result is shared by all viewers."""
        self._must_answer()
        return answer_or_raise(_query(self, promql, convert))

    def query_at(self, promql: str, moment: int) -> list[Sample]:
        """Return the value of every series at that time. The query may read a long range, so it may take longer."""
        self._must_answer()
        return answer_or_raise(_query_at(self, promql, moment))

    def query_range(
        self, promql: str, legend: str, span: Span, max_series: int = MAX_SERIES, *, keep_low: bool = False
    ) -> History:
        """Return the series over time: the `max_series` with the highest values, or with `keep_low` the lowest."""
        self._must_answer()
        return answer_or_raise(_query_range(self, promql, legend, span, max_series, keep_low))

    def _must_answer(self) -> None:
        if not self.answers:
            raise Unreachable("Prometheus does not answer. Is it running, and is ZMON_PROMETHEUS_URL right?")

    @property
    def source(self) -> Source:
        """The server, for error messages."""
        return Source(
            "prometheus", name="Prometheus", variable="ZMON_PROMETHEUS_URL", url=self.url, mismatch="not Prometheus"
        )

    def link(self, promql: str, span: Span, *, is_now: bool) -> str:
        """Return a link to the query in Prometheus. If `is_now`, the link has no end time, so it stays the same."""
        graph = {"g0.expr": promql, "g0.tab": 0, "g0.range_input": f"{span.end - span.start}s"}
        if not is_now:
            graph["g0.end_input"] = f"{datetime.fromtimestamp(span.end, UTC):%Y-%m-%d %H:%M:%S}"
        url = _external_url(self) if self.answers else self.url
        return f"{without_credentials(url).rstrip('/')}/graph?{urlencode(graph)}"


# Current values and failures are cached for one refresh, so that twenty viewers do not all wait. Answers about a fixed
# time are cached for CACHE_SECONDS by the functions `_answer_…`. These raise on a failure, so it is not cached as long.


@st.cache_resource(ttl=REFRESH_SECONDS, max_entries=CACHE_ENTRIES, show_spinner=False)
def _query(prometheus: Prometheus, promql: str, _convert: Callable[[list[Sample]], T]) -> T | Unreachable:
    """Send the query. `_convert` is not part of the cache key, because each query has one converter."""
    return answer_or_error(lambda: _convert(_samples(prometheus, TIMEOUT_SECONDS, (("query", promql),))))


@st.cache_resource(ttl=REFRESH_SECONDS, max_entries=CACHE_ENTRIES, show_spinner=False)
def _query_at(prometheus: Prometheus, promql: str, moment: int) -> list[Sample] | Unreachable:
    return answer_or_error(lambda: _answer_at(prometheus, promql, moment))


@st.cache_resource(ttl=CACHE_SECONDS, max_entries=CACHE_ENTRIES, show_spinner=False)
def _answer_at(prometheus: Prometheus, promql: str, moment: int) -> list[Sample]:
    return _samples(prometheus, LONG_TIMEOUT_SECONDS, (("query", promql), ("time", moment)))


@st.cache_resource(ttl=REFRESH_SECONDS, max_entries=CACHE_ENTRIES, show_spinner=False)
def _query_range(
    prometheus: Prometheus, promql: str, legend: str, span: Span, max_series: int, keep_low: bool
) -> History | Unreachable:
    return answer_or_error(lambda: _answer_over(prometheus, promql, legend, span, max_series, keep_low))


@st.cache_resource(ttl=CACHE_SECONDS, max_entries=CACHE_ENTRIES, show_spinner=False)
def _answer_over(
    prometheus: Prometheus, promql: str, legend: str, span: Span, max_series: int, keep_low: bool
) -> History:
    # VictoriaMetrics would move the times to multiples of the step, for its own cache, and a heat map would have gaps.
    query = (
        ("query", promql), ("start", span.start), ("end", span.end), ("step", span.resolution), ("nocache", 1),
    )  # fmt: skip
    answer = ask_uncached(prometheus.source, "/api/v1/query_range", query, Answer[Matrix], LONG_TIMEOUT_SECONDS)
    return history(answer.data.result, legend, span, max_series, keep_low=keep_low)


@st.cache_resource(ttl=CACHE_SECONDS, max_entries=CACHE_ENTRIES, show_spinner=False)
def _external_url(prometheus: Prometheus) -> str:
    """Return the URL for a browser: the flag --web.external-url, else the URL that the dashboard uses."""
    try:
        flags = ask_uncached(prometheus.source, "/api/v1/status/flags", (), Answer[Flags], TIMEOUT_SECONDS).data
    except Unreachable:  # a server with the same API may not publish flags
        return prometheus.url
    is_url = flags.external_url.startswith(("http://", "https://"))
    return flags.external_url if is_url else prometheus.url


def _samples(prometheus: Prometheus, timeout_seconds: float, query: Query) -> list[Sample]:
    answer = ask_uncached(prometheus.source, "/api/v1/query", query, Answer[Vector], timeout_seconds)
    return [Sample(series.metric, float(series.value[1]), series.value[0]) for series in answer.data.result]


@dataclass(frozen=True)
class Hub:
    """A client of the hub, which knows the jobs and publishes findings."""

    url: str = field(default_factory=lambda: os.environ.get("ZMON_HUB_URL", "http://127.0.0.1:9781"))

    @property
    def source(self) -> Source:
        """The server, for error messages."""
        return Source("hub", name="The hub", variable="ZMON_HUB_URL", url=self.url, mismatch="no hub of this version")

    def jobs(self) -> api.JobList:
        """Return all jobs that the hub knows. If the hub is blind, this is its last known state."""
        return ask(self.source, api.endpoints.JOBS, api.JobsRequest())

    def findings(self, job_id: str | None = None) -> Sequence[Finding]:
        """Return the open findings of all jobs, or all findings of one job; newest first, without evidence."""
        request = api.FindingsRequest(job_id, active=job_id is None, evidence=False)
        return ask(self.source, api.endpoints.FINDINGS, request).findings

    def findings_with_evidence(self, job_id: str, num_ranks: int) -> Sequence[Finding]:
        """Return the open findings of a job, newest first. Their evidence has rows of at most `num_ranks` ranks."""
        request = api.FindingsRequest(job_id, active=True, evidence_ranks=num_ranks)
        return ask(self.source, api.endpoints.FINDINGS, request).findings

    def ranks(self, request: api.RanksRequest) -> api.RankList:
        """Return ranks of a job in their last known state: all, or one page of them."""
        return ask(self.source, api.endpoints.RANKS, request)

    def scaling(self, job_id: str, what_if: tuple[str, ...] = ()) -> api.ScalingAnswer:
        """Return the recorded and the predicted steps of jobs of the same name, by size."""
        return ask(self.source, api.endpoints.SCALING, api.ScalingRequest(job_id, what_if=what_if))

    def incidents(self) -> Sequence[IncidentSummary]:
        """Return all incidents, newest first."""
        return ask(self.source, api.endpoints.INCIDENTS, api.IncidentsRequest()).incidents

    def ends(self, job_id: str | None, seconds: float, limit: int) -> api.EndList:
        """Return at most `limit` newest ends of launches, of this job or of all; negative `seconds`: however old."""
        return ask(self.source, api.endpoints.ENDS, api.EndsRequest(job_id, seconds, limit))

    def intents(self, job_id: str, limit: int) -> Sequence[Intent]:
        """Return the newest intents about a job: what zmon did about it, refused, or only observed."""
        return ask(self.source, api.endpoints.INTENTS, api.IntentsRequest(job_id, limit)).intents

    def report(self, incident: str) -> str:
        """Return the HTML page of an incident, which needs no other file."""
        return _report(self, incident)


@st.cache_resource(ttl=CACHE_SECONDS, max_entries=20, show_spinner=False)
def _report(hub: Hub, incident: str) -> str:
    path = f"{api.endpoints.INCIDENT.path_of(api.IncidentRequest(incident))}/report.html"
    return fetch(hub.source, path).decode("utf-8", errors="replace")


def quoted(label_value: str) -> str:
    """Return the label value in quotes, safe inside PromQL, because a job_id may come from the address bar."""
    return json.dumps(label_value, ensure_ascii=False)
