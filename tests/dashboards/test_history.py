"""Tests of `history`, which makes a table from series of Prometheus: gaps, order, and series that are left out."""

import pytest

from dashboards.address import Span
from dashboards.history import history
from dashboards.prometheus_answers import RangeSeries

SPAN = Span(90, 110, 2)


def series(*values, **labels):
    return RangeSeries(labels, values)


def history_of(*answer, max_series=9, **options):
    """Return the history of these series, which have the names of their ranks."""
    return history(answer, "rank {rank}", SPAN, max_series, **options)


def test_gap_is_missing_value():
    result = history_of(series((100, "1"), (102, "NaN"), (106, "2"), rank="0"))
    values = [None if value != value else value for value in result.table["value"]]
    assert values == [1, None, None, 2, None, None]
    assert result.table["time"].iloc[0].timestamp() == 100
    assert result.table["time"].iloc[-1].timestamp() == 110
    assert result.known_until == 106


def test_series_are_sorted_by_number():
    result = history_of(series((100, "1"), rank="10"), series((100, "1"), rank="2"), series((100, "1")))
    assert list(dict.fromkeys(result.table["series"])) == ["rank 2", "rank 10", "rank ?"]


def test_history_without_finite_values_is_empty():
    result = history_of(series((100, "NaN"), (102, "+Inf")))
    assert result.table.empty
    assert result.known_until is None


def test_series_beyond_limit_are_left_out():
    result = history_of(*(series((100, str(rank)), rank=str(rank)) for rank in range(30)), max_series=4)
    assert list(dict.fromkeys(result.table["series"])) == ["rank 26", "rank 27", "rank 28", "rank 29"]
    assert result.num_left_out == 26


def test_keep_low_keeps_series_with_lowest_minimum():
    """All others wait for the rank that waits least."""
    answer = [series((98, "0.9"), (100, "0.1" if rank == 17 else "0.9"), rank=str(rank)) for rank in range(30)]
    result = history_of(*answer, max_series=4, keep_low=True)
    assert "rank 17" in set(result.table["series"])


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf"])
def test_time_of_last_nan_is_separate_from_time_of_last_known_value(value):
    result = history_of(series((100, "1"), (102, value), rank="0"))
    assert (result.known_until, result.nan_until) == (100, 102)
    assert history_of(series((100, "1"))).nan_until is None


def test_values_outside_span_are_omitted():
    result = history_of(series((80, "7"), (100, "1"), (200, "9"), rank="0"))
    assert list(result.table["value"].dropna()) == [1]
