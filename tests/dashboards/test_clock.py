"""Tests of times on a page: UTC is shown, and the local time of the browser on hover."""

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
def test_local_time_has_its_zone_and_is_empty_if_unknown(unix_seconds, zone, text):
    assert clock.local_time(unix_seconds, zone) == text


def test_time_is_shown_in_utc_with_the_local_time_on_hover(monkeypatch):
    monkeypatch.setattr(clock.st, "context", SimpleNamespace(timezone="Europe/Berlin"))
    assert clock.html(NOON) == '<time title="Sat 21 Nov 13:00:00 CET">12:00:00 UTC</time>'
    assert clock.html(NOON, date_and_time).endswith(">21 Nov 12:00:00 UTC</time>")
    assert clock.html(None) == "unknown"
