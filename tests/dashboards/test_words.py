"""Numbers and texts for people; an unknown value is called unknown."""

import pytest

from dashboards.words import clock, count, link, marked, share
from zmon.format import duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "unknown"), (float("nan"), "unknown"), (0, "0 ms"), (0.0832, "83.2 ms"), (0.9999, "1.0 s"), (4.06, "4.1 s"),
     (9.99, "10 s"), (59.7, "1 min"), (192, "3 min 12 s"), (7260, "2 h 1 min")],
)  # fmt: skip
def test_durations(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(None, "unknown"), (float("nan"), "NaN"), (0, "0"), (0.45123, "0.451"), (3.27, "3.27"), (18618.2, "18,618")],
)
def test_counts(number, text):
    assert count(number) == text


@pytest.mark.parametrize(
    ("ratio", "text"), [(None, "unknown"), (float("nan"), "unknown"), (0, "0.0 %"), (0.8734, "87.3 %")]
)
def test_shares(ratio, text):
    assert share(ratio) == text


def test_clock_is_utc_and_unknown_without_a_time():
    assert clock(0) == "00:00:00 UTC"
    assert clock(None) == "unknown"


def test_text_from_outside_is_escaped():
    assert marked("run `ls <x>`\nnow") == "run <code>ls &lt;x&gt;</code><br>now"
    assert link("job", {"job_id": '"><script>'}, "<b>") == (
        '<a href="job?job_id=%22%3E%3Cscript%3E" target="_self">&lt;b&gt;</a>'
    )
