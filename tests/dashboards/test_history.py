"""What does an answer become: lines on one grid, gaps, and word of what was left out?"""

from dashboards.address import Span
from dashboards.history import history
from dashboards.prometheus_answers import RangeSeries

SPAN = Span(90, 110, 2)


def series(*values, **labels):
    return RangeSeries(labels, values)


def test_a_gap_is_a_missing_value_and_the_right_edge_is_now():
    found = history([series((100, "1"), (102, "NaN"), (106, "2"), rank="0")], "rank {rank}", SPAN, 9)
    values = [None if value != value else value for value in found.table["value"]]
    assert values == [1, None, None, 2, None, None]
    assert found.table["time"].iloc[0].timestamp() == 100
    assert found.table["time"].iloc[-1].timestamp() == 110
    assert found.known_until == 106


def test_rank_10_comes_after_rank_2_and_a_missing_label_is_a_question_mark():
    found = history(
        [*(series((100, "1"), rank=rank) for rank in ("10", "2")), series((100, "1"))], "rank {rank}", SPAN, 9
    )
    assert list(dict.fromkeys(found.table["series"])) == ["rank 2", "rank 10", "rank ?"]


def test_nothing_known_is_an_empty_table():
    found = history([series((100, "NaN"), (102, "+Inf"))], "", SPAN, 9)
    assert found.table.empty
    assert found.known_until is None


def test_of_too_many_the_largest_are_kept_and_the_others_counted():
    found = history([series((100, str(rank)), rank=str(rank)) for rank in range(30)], "rank {rank}", SPAN, 4)
    assert list(dict.fromkeys(found.table["series"])) == ["rank 26", "rank 27", "rank 28", "rank 29"]
    assert found.left_out == 26


def test_where_low_is_what_matters_the_lowest_are_kept():
    """The one that waits least is the one that all others wait for."""
    told = [series((98, "0.9"), (100, "0.1" if rank == 17 else "0.9"), rank=str(rank)) for rank in range(30)]
    found = history(told, "rank {rank}", SPAN, 4, keep_low=True)
    assert "rank 17" in set(found.table["series"])


def test_a_value_that_turned_into_no_number_is_not_merely_missing():
    found = history([series((100, "1"), (102, "NaN"), rank="0")], "rank {rank}", SPAN, 9)
    assert (found.known_until, found.nan_until) == (100, 102)
    assert history([series((100, "1"))], "", SPAN, 9).nan_until is None


def test_what_lies_outside_the_span_is_left_out():
    found = history([series((80, "7"), (100, "1"), (200, "9"), rank="0")], "rank {rank}", SPAN, 9)
    assert list(found.table["value"].dropna()) == [1]
