"""Tests of durations in Prometheus' notation."""

import pytest

from zmon.schema.scraping import duration_seconds, duration_text


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("2s", 2), ("15s", 15), ("1m", 60), ("1m30s", 90), ("500ms", 0.5), ("1h", 3600), ("1d12h", 129600), ("0s", 0)],
)
def test_duration_is_read_as_prometheus_writes_it(text, seconds):
    assert duration_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "15", "s", "1.5s", "-1s", "30s1m", "2 s", "15s\n", "٣s"])
def test_text_that_is_no_duration_is_refused(text):
    with pytest.raises(ValueError, match="is not a duration such as 15s"):
        duration_seconds(text)


@pytest.mark.parametrize(("seconds", "text"), [(0, "0s"), (2, "2s"), (60, "1m"), (90, "1m30s"), (300, "5m")])
def test_whole_seconds_are_written_as_prometheus_writes_them(seconds, text):
    assert duration_text(seconds) == text
    assert duration_seconds(text) == seconds
