"""Tests of the colours: each word has one, lines of one chart differ, and all are readable on light and on dark."""

from colorsys import rgb_to_hls
from itertools import combinations

import pytest

from dashboards import colours
from dashboards.colours import ACTIVITIES, CATEGORIES, CAUSES, DASHES, GREEN, GREY, ORANGE, RANKS, SERIES, STATES, looks
from zmon import detectors
from zmon.detectors import unread
from zmon.schema import names
from zmon.schema.curve import IMBALANCE

OUTSIDE_STEPS = ("stall", "restart", "unknown")  # as zmon/job/time_account.py calls them
LIGHT, DARK = "#FFFFFF", "#0E1117"  # the backgrounds of Streamlit's themes
MIN_CONTRAST = {LIGHT: 2.0, DARK: 3.0}  # text would need 4.5; no meaning depends on a colour alone
ALL_CAUSES = [cause for detector in detectors.ALL for cause in detector.causes]
ALL_CAUSES += [cause.cause for cause in unread._CAUSES.values()]
CHARTS = {  # the colours that one chart can have
    "time categories": {name: colour for name, colour in CATEGORIES.items() if name != "own"},
    "parts of a predicted step": {
        name: colour for name, colour in CATEGORIES.items() if name not in (*names.PHASES, *names.ACTIVITIES)
    },
    "states of ranks": {**STATES, **ACTIVITIES},
    "causes": CAUSES,
    "ranks": dict(enumerate(RANKS)),
    "other lines": dict(enumerate(SERIES)),
}


def luminance(colour: str) -> float:
    """Return the relative luminance as the Web Content Accessibility Guidelines define it."""
    parts = [part / 255 for part in bytes.fromhex(colour.removeprefix("#"))]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted(map(luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("word", CATEGORIES)
def test_time_category_and_wait_for_it_have_the_same_colour(word):
    assert colours.category_colour(f"wait: {word}") == colours.category_colour(word) == CATEGORIES[word]


def test_tables_have_exactly_the_words_of_zmon():
    assert set(CATEGORIES) == {*names.PHASES, *names.OPS, *names.BETWEEN_STEPS, IMBALANCE, "own", *OUTSIDE_STEPS}
    assert set(ACTIVITIES) == set(names.ACTIVITIES)
    assert set(CAUSES) == set(ALL_CAUSES)


def test_word_of_two_tables_has_one_colour():
    for one, other in combinations((CATEGORIES, ACTIVITIES, CAUSES), 2):
        assert all(one[word] == other[word] for word in one.keys() & other.keys())


@pytest.mark.parametrize("chart", CHARTS)
def test_colours_of_one_chart_differ(chart):
    assert len(set(CHARTS[chart].values())) == len(CHARTS[chart])


@pytest.mark.parametrize("background", MIN_CONTRAST)
def test_colours_are_readable_on_both_themes(background):
    used = {colour for chart in CHARTS.values() for colour in chart.values()}
    assert not [colour for colour in used if contrast(colour, background) < MIN_CONTRAST[background]]


def test_no_cause_is_green():
    """Green is for what is well, as in other tools."""
    rgb = {cause: [part / 255 for part in bytes.fromhex(colour[1:])] for cause, colour in CAUSES.items()}
    hls = {cause: rgb_to_hls(*parts) for cause, parts in rgb.items()}
    assert not [cause for cause, (hue, _, saturation) in hls.items() if 90 < 360 * hue < 165 and saturation > 0.2]


def test_names_are_in_the_order_of_time_categories_and_others_follow_as_they_are():
    assert colours.in_order(["rank 10", "all_to_all", "rank 2", "forward"]) == [
        "forward", "all_to_all", "rank 10", "rank 2",
    ]  # fmt: skip


def test_unknown_words_are_grey():
    assert colours.category_colour("unheard") == colours.cause_colour("unheard") == GREY


def test_line_has_the_colour_of_its_rank_or_op_and_lines_of_one_colour_have_other_dashes():
    assert looks(["rank 3", "all_to_all: exposed", "rank 13 (process)", "all_to_all: in flight"]) == [
        (RANKS[3], DASHES[0]), (ORANGE, DASHES[0]), (RANKS[3], DASHES[1]), (ORANGE, DASHES[1]),
    ]  # fmt: skip


def test_line_without_meaning_has_no_colour_of_a_rank_beside_it():
    one, other = looks(["rank 2", "3 ranks, equal"])
    assert one.colour == GREEN
    assert other.colour not in RANKS[2:3]


def test_colour_of_a_rank_does_not_depend_on_the_other_ranks():
    assert looks(["rank 1", "rank 7"])[1] == looks(["rank 7"])[0]
