"""Tests of `dashboards.formats`. Durations, numbers, shares and times without a value are "unknown".

A duration or share of NaN is "unknown" too, but a number that is NaN stays "NaN".
"""

import pytest

from dashboards.formats import date_and_time, efficiency, gpu_time, number, share, time_of_day
from zmon.format import duration
from zmon.schema.curve import Point


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "unknown"), (float("nan"), "unknown"), (0, "0 ms"), (0.0832, "83.2 ms"), (0.9999, "1.0 s"), (4.06, "4.1 s"),
     (9.99, "10 s"), (59.7, "1 min"), (192, "3 min 12 s"), (3600, "1 h"), (7260, "2 h 1 min"), (200_000, "2 d 7 h"),
     (-1.0, "0 ms"), (2e-17, "0 ms"), (float("inf"), "unknown")],
)  # fmt: skip
def test_duration_has_unit(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "unknown"), (float("nan"), "NaN"), (0, "0"), (0.45123, "0.451"), (3.27, "3.27"), (18618.2, "18,618")],
)
def test_number_is_formatted_by_its_size(value, text):
    assert number(value) == text


@pytest.mark.parametrize(
    ("ratio", "text"), [(None, "unknown"), (float("nan"), "unknown"), (0, "0.0 %"), (0.8734, "87.3 %")]
)
def test_share_is_percent(ratio, text):
    assert share(ratio) == text


@pytest.mark.parametrize(
    ("ratio", "reference", "text"),
    [
        (None, None, "unknown"),
        (0.812, None, "81.2 %"),
        (1.0004, None, "100.0 %"),
        (1.2, None, "120.0 % (above 100 %: a rank is faster than at the smallest recorded size)"),
        (1.2, Point(1, 512, 0.05, "night-41", 0.0), "120.0 % (above 100 %: a rank trains on 12,288 samples/s,"
         " and on 10,240 with 1 rank, recorded by night-41)"),
    ],
)  # fmt: skip
def test_efficiency_above_one_has_its_reason(ratio, reference, text):
    assert efficiency(ratio, reference) == text


@pytest.mark.parametrize(
    ("hours", "text"),
    [(None, "unknown"), (float("nan"), "unknown"), (0, "0 GPU-h"), (0.0064, "23 GPU-s"), (0.07, "4.2 GPU-min"),
     (12.5, "12.5 GPU-h"), (1234.5, "1,234 GPU-h")],
)  # fmt: skip
def test_gpu_time_has_the_unit_that_fits(hours, text):
    assert gpu_time(hours) == text


def test_time_is_in_utc():
    assert time_of_day(0) == "00:00:00 UTC"
    assert date_and_time(0) == "01 Jan 00:00:00 UTC"
    assert time_of_day(None) == date_and_time(None) == "unknown"
