"""What does an answer become: numbers, gaps, or one line on what is wrong?"""

import pytest

from dashboards.queries import Prometheus, Unreachable, quoted
from dashboards.words import clock, count, duration


@pytest.fixture
def prometheus(monkeypatch):
    """A Prometheus whose answer a test writes down."""
    answer = []
    monkeypatch.setattr(Prometheus, "_result", lambda *_, **__: answer)
    return answer


def test_a_gap_is_a_missing_value_and_the_right_edge_is_now(prometheus):
    prometheus.append({"metric": {"rank": "0"}, "values": [[100, "1"], [102, "NaN"], [106, "2"]]})
    table = Prometheus("").over("asked", "rank {rank}", 90, 110, 2)
    values = [None if value != value else value for value in table["value"]]
    assert values == [1, None, None, 2, None, None]
    assert table["time"].iloc[0].timestamp() == 100
    assert table["time"].iloc[-1].timestamp() == 110


def test_rank_10_comes_after_rank_2_and_a_missing_label_is_a_question_mark(prometheus):
    prometheus.extend({"metric": {"rank": rank}, "values": [[100, "1"]]} for rank in ("10", "2"))
    prometheus.append({"metric": {}, "values": [[100, "1"]]})
    table = Prometheus("").over("asked", "rank {rank}", 90, 100, 2)
    assert list(dict.fromkeys(table["series"])) == ["rank 2", "rank 10", "rank ?"]


def test_nothing_known_is_an_empty_table(prometheus):
    prometheus.append({"metric": {}, "values": [[100, "NaN"]]})
    assert Prometheus("").over("asked", "", 90, 100, 2).empty


def test_credentials_in_a_url_do_not_reach_the_page():
    with pytest.raises(Unreachable) as failed:
        Prometheus("http://me:secret@127.0.0.1:9").now("up")
    assert "secret" not in str(failed.value)
    assert "127.0.0.1:9" in str(failed.value)


def test_a_label_value_cannot_end_its_quotes():
    assert quoted('a"} or up{b="\\') == r'"a\"} or up{b=\"\\"'


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(None, "unknown"), (float("nan"), "unknown"), (0, "0 ms"), (0.0832, "83.2 ms"), (0.9999, "1.0 s"), (4.06, "4.1 s"),
     (9.99, "10.0 s"), (59.7, "1 min 0 s"), (192, "3 min 12 s"), (7260, "2 h 1 min")],
)  # fmt: skip
def test_durations(seconds, said):
    assert duration(seconds) == said


@pytest.mark.parametrize(
    ("number", "said"),
    [(None, "unknown"), (float("nan"), "NaN"), (0, "0"), (0.45123, "0.451"), (3.27, "3.27"), (18618.2, "18,618")],
)
def test_counts(number, said):
    assert count(number) == said


def test_clock_is_utc_and_unknown_without_a_time():
    assert clock(0) == "00:00:00 UTC"
    assert clock(None) == "unknown"
