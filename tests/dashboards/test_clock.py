"""Tests of times on a page: UTC is shown, and the local time of the browser on hover."""

import re
from types import SimpleNamespace

import pytest

from dashboards.formats import date_and_time
from dashboards.views import clock

NOON = 1_795_262_400  # 21 Nov 2026 12:00:00 UTC


@pytest.mark.parametrize(
    ("unix_seconds", "zone", "text"),
    [
        (NOON, "Europe/Berlin", "Sat 21 Nov 13:00:00 CET"),
        (NOON, "Asia/Kolkata", "Sat 21 Nov 17:30:00 IST"),
        (NOON, "UTC", ""),  # the page shows it already
        (NOON, None, ""),
        (NOON, "Mars/Olympus", ""),
        (NOON, "../etc/passwd", ""),
        (None, "Europe/Berlin", ""),
        (float("nan"), "Europe/Berlin", ""),
    ],
)
def test_local_time_has_its_zone(unix_seconds, zone, text):
    assert clock.local_time(unix_seconds, zone) == text


def test_time_is_shown_in_utc_with_the_local_time_on_hover(monkeypatch):
    monkeypatch.setattr(clock.st, "context", SimpleNamespace(timezone="Europe/Berlin"))
    assert clock.html(NOON) == '<time title="Sat 21 Nov 13:00:00 CET">12:00:00 UTC</time>'
    assert clock.html(NOON, date_and_time).endswith(">21 Nov 12:00:00 UTC</time>")
    assert clock.html(None) == "unknown"


@pytest.mark.parametrize(
    ("seconds", "ticks"),
    [
        (300, ["12:00:00", "12:01:15", "12:02:30", "12:03:45", "12:05:00 (UTC)"]),
        (3600, ["12:00", "12:15", "12:30", "12:45", "13:00 (UTC)"]),
        (4 * 86400, ["21 Nov", "22 Nov", "23 Nov", "24 Nov", "25 Nov (UTC)"]),
    ],
)
def test_axis_of_a_shorter_chart_has_finer_times(seconds, ticks):
    assert re.findall(r"<i>([^<]*)</i>", clock.axis(NOON, NOON + seconds)) == ticks
    assert clock.axis(NOON, NOON + seconds, is_now=True).endswith("<i>now (UTC)</i></div>")
