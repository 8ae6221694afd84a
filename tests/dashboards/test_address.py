"""A link shows the same to every reader, and parameters that cannot be parsed are ignored."""

import pytest

from dashboards.address import COLUMNS, POINTS, RANGES, Address

NOW = 1_795_217_275.4


@pytest.mark.parametrize(
    "address",
    [
        Address(),
        Address(job_id="ads", rank=0, range="6h", at=1_795_000_000),
        Address(job_id="ads", host="node-1", other="video", incident="f1"),
        Address(job_id="ads", what_if=(("net", 2), ("own", 0.25))),
    ],
)
def test_an_address_survives_its_url(address):
    assert Address.read(address.params()) == address


def test_defaults_are_not_in_the_url():
    assert Address(job_id="ads").params() == {"job_id": "ads"}


@pytest.mark.parametrize(
    "params",
    [{"range": "3h"}, {"rank": "-1"}, {"rank": "two"}, {"rank": "²"}, {"rank": "9" * 30}, {"at": "soon"}, {"at": "nan"},
     {"at": "-5"}, {"at": "1e300"}, {"job_id": ""}],
)  # fmt: skip
def test_a_parameter_that_cannot_be_parsed_is_ignored(params):
    assert Address.read(params) == Address()


@pytest.mark.parametrize("text", ["net", "=2", "net=", "net=-1", "net=nan", "net=1e9", "net=\N{SUPERSCRIPT TWO}", ",,"])
def test_a_what_if_that_cannot_be_parsed_is_ignored_and_the_others_stay(text):
    assert Address.read({"what_if": text}).what_if == ()
    assert Address.read({"what_if": f"own=0.5,{text}"}).what_if == (("own", 0.5),)


def test_another_job_has_other_ranks_and_hosts():
    address = Address(job_id="ads", rank=3, host="node-1", incident="f1", range="1h", at=5.0)
    assert address.moved(job_id="video") == Address(job_id="video", range="1h", at=5.0)
    assert address.moved(job_id="ads") == address


def test_choosing_the_first_job_keeps_the_incident():
    assert Address(incident="f1").moved(job_id="ads") == Address(job_id="ads", incident="f1")


@pytest.mark.parametrize("points", [POINTS, COLUMNS])
@pytest.mark.parametrize("name", RANGES)
def test_a_span_ends_now_and_stays_until_a_point_is_due(name, points):
    first, second = (Address(range=name).span(now, points) for now in (NOW, NOW + 0.5))
    moves = {POINTS: [6, 7, 30, 60, 60, 60], COLUMNS: [10, 15, 60, 60, 60, 60]}[points][list(RANGES).index(name)]
    assert first == second or second.end - first.end == moves
    assert first.end % moves == 0
    assert first.end - first.start == RANGES[name]
    assert NOW - first.end < moves + 1


@pytest.mark.parametrize("name", RANGES)
def test_viewers_get_new_points_one_after_the_other_within_ten_seconds(name):
    end = Address(range=name).span(NOW).end  # of the first viewer
    last = next(now for now in range(end, end + 60) if Address(range=name).span(now, turn=1.0).end == end)
    assert 0 < last - end <= 10


def test_a_link_to_a_moment_shows_every_viewer_the_same_span():
    address = Address(range="6h", at=NOW - 30_000)
    assert address.span(NOW, turn=1.0) == address.span(NOW)


def test_a_moment_has_most_of_the_range_before_it_and_some_after():
    span = Address(range="15m", at=NOW - 3600).span(NOW)
    assert span.end == pytest.approx(NOW - 3600 + 300, abs=span.resolution)


def test_a_span_does_not_end_in_the_future():
    assert Address(at=NOW - 10).span(NOW).end <= NOW


def test_a_window_contains_several_steps_of_any_length():
    span = Address(range="5m").span(NOW)
    assert span.window(None) == 10
    assert span.window(30.0) == 120
    assert Address(range="24h").span(NOW).window(0.01) == 86400 // POINTS


@pytest.mark.parametrize(
    ("age", "shown"), [(60, "5m"), (301, "15m"), (3000, "1h"), (86_401, "7d"), (8 * 86_400, "7d"), (-60, "7d")]
)
def test_a_job_younger_than_the_range_is_shown_whole_and_in_more_detail(age, shown):
    span = Address(range="7d").span(NOW, begin=NOW - age)
    assert span == (Address(range=shown).span(NOW) if age > 0 else Address(range="5m").span(NOW))
    assert Address(range="5m").span(NOW, begin=NOW - age) == Address(range="5m").span(NOW)


def test_a_young_job_is_shown_whole_around_a_moment_too():
    span = Address(range="7d", at=NOW - 600).span(NOW, begin=NOW - 800)
    assert span.start <= NOW - 800
    assert span.end >= NOW - 600
    assert span.end - span.start == RANGES["15m"]
