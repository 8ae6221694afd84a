"""Tests of `Address` and its time span.

An address is read back from its URL unchanged. Parameters that cannot be parsed are ignored. A link to a moment shows
the same span to every viewer.
"""

import pytest

from dashboards.address import CHART_POINTS, HEAT_MAP_POINTS, RANGES, Address

NOW = 1_795_217_275.4
MOVES = {  # the seconds by which a span moves, for each number of points and each range
    CHART_POINTS: dict(zip(RANGES, (6, 7, 30, 60, 60, 60), strict=True)),
    HEAT_MAP_POINTS: dict(zip(RANGES, (10, 15, 60, 60, 60, 60), strict=True)),
}


@pytest.mark.parametrize(
    "address",
    [
        Address(),
        Address(job_id="ads", rank=0, range="6h", at=1_795_000_000),
        Address(job_id="ads", host="node-1", other="video", incident="f1"),
        Address(job_id="ads", what_if=(("net", 2), ("own", 0.25))),
        Address(job_id="ads", order="-self_seconds", first=50),
    ],
)
def test_address_is_read_back_from_its_url_unchanged(address):
    assert Address.read(address.params()) == address


def test_url_omits_default_parameters():
    assert Address(job_id="ads").params() == {"job_id": "ads"}


@pytest.mark.parametrize(
    "params",
    [{"range": "3h"}, {"rank": "-1"}, {"rank": "two"}, {"rank": "²"}, {"rank": "9" * 30}, {"at": "soon"}, {"at": "nan"},
     {"at": "-5"}, {"at": "1e300"}, {"job_id": ""}],
)  # fmt: skip
def test_parameter_that_cannot_be_parsed_is_ignored(params):
    assert Address.read(params) == Address()


@pytest.mark.parametrize("text", ["net", "=2", "net=", "net=-1", "net=nan", "net=1e9", "net=\N{SUPERSCRIPT TWO}", ",,"])
def test_only_what_ifs_that_cannot_be_parsed_are_ignored(text):
    assert Address.read({"what_if": text}).what_if == ()
    assert Address.read({"what_if": f"own=0.5,{text}"}).what_if == (("own", 0.5),)


def test_move_to_another_job_clears_rank_host_and_incident():
    address = Address(job_id="ads", rank=3, host="node-1", incident="f1", range="1h", at=5.0, first=50)
    assert address.moved(job_id="video") == Address(job_id="video", range="1h", at=5.0)
    assert address.moved(job_id="ads") == address


def test_move_from_no_job_to_a_job_keeps_incident():
    assert Address(incident="f1").moved(job_id="ads") == Address(job_id="ads", incident="f1")


@pytest.mark.parametrize("points", [CHART_POINTS, HEAT_MAP_POINTS])
@pytest.mark.parametrize("name", RANGES)
def test_span_moves_only_when_a_point_is_due(name, points):
    first, second = (Address(range=name).span(now, points) for now in (NOW, NOW + 0.5))
    move = MOVES[points][name]
    assert first == second or second.end - first.end == move
    assert first.end % move == 0
    assert first.end - first.start == RANGES[name]
    assert NOW - first.end < move + 1


@pytest.mark.parametrize("name", RANGES)
def test_last_viewer_gets_new_span_within_ten_seconds_of_first_viewer(name):
    end = Address(range=name).span(NOW).end  # of the first viewer
    last = next(now for now in range(end, end + 60) if Address(range=name).span(now, jitter=1.0).end == end)
    assert 0 < last - end <= 10


def test_span_around_moment_is_equal_for_every_viewer():
    address = Address(range="6h", at=NOW - 30_000)
    assert address.span(NOW, jitter=1.0) == address.span(NOW)


def test_span_around_moment_has_two_thirds_of_range_before_moment():
    span = Address(range="15m", at=NOW - 3600).span(NOW)
    assert span.end == pytest.approx(NOW - 3600 + 300, abs=span.resolution)


def test_span_does_not_end_in_the_future():
    assert Address(at=NOW - 10).span(NOW).end <= NOW


def test_rate_window_grows_with_step_time_and_resolution():
    span = Address(range="5m").span(NOW)
    assert span.window(None, 10) == 10
    assert span.window(30.0, 10) == 120
    assert span.window(None, 75) == 75
    assert Address(range="24h").span(NOW).window(0.01, 75) == 86400 // CHART_POINTS


@pytest.mark.parametrize(
    ("age", "shown"), [(60, "5m"), (301, "15m"), (3000, "1h"), (86_401, "7d"), (8 * 86_400, "7d"), (-60, "7d")]
)
def test_span_of_young_job_has_shortest_range_that_contains_job(age, shown):
    span = Address(range="7d").span(NOW, job_start=NOW - age)
    assert span == (Address(range=shown).span(NOW) if age > 0 else Address(range="5m").span(NOW))
    assert Address(range="5m").span(NOW, job_start=NOW - age) == Address(range="5m").span(NOW)


def test_span_around_moment_of_young_job_begins_before_job():
    span = Address(range="7d", at=NOW - 600).span(NOW, job_start=NOW - 800)
    assert span.start <= NOW - 800
    assert span.end >= NOW - 600
    assert span.end - span.start == RANGES["15m"]
