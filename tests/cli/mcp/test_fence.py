"""Tests of the marks around text from jobs: the text cannot end the marks, be invisible, or look like zmon's words."""

import json
import re

import pytest

from tests.build import evidence, finding
from tests.cli.mcp.hostile import HOSTILE, assert_harmless, data_of
from zmon.cli.mcp.fence import MAX_CHARACTERS, fenced, fields, lines, page, quoted, row
from zmon.schema.incident import TimelineEvent

HEAD = ["3 things."]


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_is_printable_ascii_without_marks(text):
    for line in (quoted(text), row({"who": text, "all": [text]}), *lines({text: text}, "x"), *lines([{text: 1}], "x")):
        assert_harmless("\n".join(fenced([line])))


@pytest.mark.parametrize("text", [text for name, text in HOSTILE.items() if name != "long"])
def test_quoted_text_that_is_not_too_long_is_json_of_the_text(text):
    assert json.loads(quoted(text)) == text


def test_long_text_says_how_much_is_left_out():
    note = "(234 more characters are left out; zmon's commands show them with --json)"
    assert quoted("x" * 1234) == f'"{"x" * 1000} {note}"'


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, ["x: null"]),
        (0, ["x: 0"]),
        (True, ["x: true"]),
        (1795217275.0804, ["x: 1795217275.08"]),
        (1e-9, ["x: 1e-09"]),
        (float("nan"), ["x: nan"]),
        ("", ['x: ""']),
        ((), ["x: []"]),
        ({}, ["x: {}"]),
        ((1, 2), ["x: [1, 2]"]),
        ({"a b": None}, ['x["a b"]: null']),
        ("one\ntwo", ['x, line 1: "one"', 'x, line 2: "two"']),
        ([{"a": 1}, {}], ['x[0]["a"]: 1', "x[1]: {}"]),
        (TimelineEvent(1.5, "what", "who"), ["x.time: 1.5", 'x.what: "what"', 'x.who: "who"', "x.clock: null"]),
        (evidence(pids=(7,)), ["x.pids: [7]"]),
    ],
)
def test_each_kind_of_value_has_its_line(value, expected):
    assert [*lines(value, "x")] == expected


def test_long_list_has_several_lines_and_a_row_says_how_many_are_left_out():
    parts = [*lines(tuple(range(130)), "x")]
    assert [part.partition(":")[0] for part in parts] == ["x[0…]", "x[64…]", "x[128…]"]
    assert parts[2] == "x[128…]: [128, 129]"
    assert row({"ranks": tuple(range(70))}).endswith("62, 63, and 6 more]")


def test_fields_are_those_that_are_set():
    assert fields(finding(), ("id", "resolved")) == {"id": "f1", "resolved": None}
    assert fields(evidence(pids=(7,))) == {"pids": (7,)}
    assert set(fields(TimelineEvent(1.0, "", ""))) == {"time", "what", "who", "clock"}


def test_short_answer_is_whole_and_has_no_note():
    assert page(HEAD, ["a", "b"], 0) == "3 things.\n<data-from-jobs>\na\nb\n</data-from-jobs>"
    assert page(HEAD, ["a", "b"], 0, is_data=False) == "3 things.\na\nb"
    assert page(HEAD, [], 0) == "3 things."


@pytest.mark.parametrize("width", [1, 80, 999, 7000])
def test_pages_have_each_line_once_in_its_order(width):
    body = [f"{number}:".ljust(width, "x") for number in range(300)]
    shown, offset, pages = [], 0, 0
    while True:
        answer = page(HEAD, body, offset)
        assert len(answer) <= MAX_CHARACTERS
        shown += data_of(answer)
        pages += 1
        following = re.search(r"For the next ones, ask again with offset=(\d+)\.$", answer)
        if following is None:
            break
        assert f"Left out: {300 - len(shown):,} of 300 lines" in answer
        offset = int(following[1])
    assert shown == body
    assert ("This is the end of 300 lines" in answer) == (pages > 1)


def test_line_longer_than_a_page_is_replaced_by_its_length():
    answer = page(HEAD, ["a", "x" * 9000, "b"], 1)
    assert data_of(answer) == ["(a line of 9,000 characters is left out)", "b"]


def test_page_that_the_hub_has_cut_counts_all_rows():
    assert page(HEAD, ["c"], 2, total=9).endswith("Left out: 6 of 9 lines. For the next ones, ask again with offset=3.")


@pytest.mark.parametrize(("offset", "note"), [(7, "end of 2 lines; 2 were before"), (-3, "b\n</data-from-jobs>")])
def test_offset_outside_of_the_lines_shows_the_first_page_or_the_end(offset, note):
    assert note in page(HEAD, ["a", "b"], offset)
