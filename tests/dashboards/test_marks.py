"""Tests of the marks on a chart: open findings, intervals of activities, and the moment of a link."""

import pandas as pd
import pytest

from dashboards.address import Address, Span
from dashboards.history import History
from dashboards.marks import activities, findings, moment
from dashboards.queries import Prometheus
from tests.dashboards.world import STALL, changed

SPAN = Span(1000, 2000, 10)


def finding(onset, resolved, severity="critical"):
    return changed(STALL, onset=onset, resolved=resolved, severity=severity)


@pytest.mark.parametrize(
    ("onset", "resolved", "drawn"),
    [
        pytest.param(1200.0, 1300.0, (1200, 1300), id="within the span"),
        pytest.param(500.0, 1100.0, (1000, 1100), id="from before the span"),
        pytest.param(1900.0, None, (1900, 2000), id="still open"),
        pytest.param(1900.0, 2500.0, (1900, 2000), id="resolved after the span"),
    ],
)
def test_mark_of_finding_covers_its_open_time_within_span(onset, resolved, drawn):
    (mark,) = findings((finding(onset, resolved),), SPAN)
    assert (mark.start, mark.end) == drawn
    assert (mark.kind, mark.label, mark.severity) == ("finding", "rank_frozen", "critical")


@pytest.mark.parametrize(
    "without_mark",
    [
        pytest.param(finding(100.0, 900.0), id="before the span"),
        pytest.param(finding(2100.0, None), id="after the span"),
        pytest.param(finding(1200.0, None, "info"), id="of severity info"),
    ],
)
def test_finding_has_no_mark(without_mark):
    assert findings((without_mark,), SPAN) == []


def test_each_interval_of_activity_has_a_mark(monkeypatch):
    times = pd.to_datetime([1000, 1010, 1020, 1030, 1500, 1510], unit="s", utc=True)
    table = pd.DataFrame({"time": times, "series": "eval", "value": [4.0, 4.0, 4.0, float("nan"), 4.0, 4.0]})
    monkeypatch.setattr(Prometheus, "query_range", lambda *_: History(table, 1510))
    assert [(mark.start, mark.end) for mark in activities(Prometheus(""), "ads", SPAN)] == [(1000, 1030), (1500, 1520)]


def test_moment_of_link_has_mark_only_within_span():
    assert [mark.start for mark in moment(Address(at=1500.0), SPAN)] == [1500]
    assert moment(Address(at=10.0), SPAN) == []
    assert moment(Address(), SPAN) == []
