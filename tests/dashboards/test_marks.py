"""What is marked on a chart: what stood while it was drawn, and what the job was at?"""

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
        (1200.0, 1300.0, (1200, 1300)),
        (500.0, 1100.0, (1000, 1100)),
        (1900.0, None, (1900, 2000)),
        (1900.0, 2500.0, (1900, 2000)),
    ],
)
def test_a_finding_is_drawn_as_far_as_it_stood(onset, resolved, drawn):
    (mark,) = findings((finding(onset, resolved),), SPAN)
    assert (mark.start, mark.end) == drawn
    assert (mark.kind, mark.label, mark.severity) == ("finding", "rank_frozen", "critical")


@pytest.mark.parametrize(("onset", "resolved"), [(100.0, 900.0), (2100.0, None)])
def test_a_finding_of_another_time_is_not_drawn(onset, resolved):
    assert findings((finding(onset, resolved),), SPAN) == []


def test_a_remark_is_not_drawn():
    assert findings((finding(1200.0, None, "info"),), SPAN) == []


def test_a_stretch_of_an_activity_is_one_mark(monkeypatch):
    at = [1000, 1010, 1020, 1500, 1510]
    table = pd.DataFrame(
        {"time": pd.to_datetime([*at, 1030], unit="s", utc=True), "series": "eval", "value": [4.0] * 5 + [float("nan")]}
    )
    monkeypatch.setattr(Prometheus, "query_range", lambda *_: History(table.sort_values("time"), 1510))
    assert [(mark.start, mark.end) for mark in activities(Prometheus(""), "ads", SPAN)] == [(1000, 1030), (1500, 1520)]


def test_the_moment_of_a_link_is_drawn_where_it_is_in_sight():
    assert [mark.start for mark in moment(Address(at=1500.0), SPAN)] == [1500]
    assert moment(Address(at=10.0), SPAN) == []
    assert moment(Address(), SPAN) == []
