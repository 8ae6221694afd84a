"""Tests of the marks around what comes from jobs: nothing in it can end them, hide or look like zmon's words."""

import json

import msgspec
import pytest

from tests.build import evidence, finding
from tests.cli.mcp.hostile import HOSTILE, assert_harmless
from zmon.cli.mcp.fence import fenced, fields, lines, quoted, row
from zmon.schema.incident import TimelineEvent


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_is_printable_ascii_without_marks(text):
    for line in (quoted(text), row({"who": text, "all": [text]}), *lines({text: text}, "x"), *lines([{text: 1}], "x")):
        assert_harmless("\n".join(fenced([line])))


@pytest.mark.parametrize("text", [text for text in HOSTILE.values() if len(text) < 1000])
def test_quoted_text_is_json_of_the_text(text):
    assert json.loads(quoted(text)) == text


def test_long_text_says_how_much_is_left_out():
    assert (
        quoted("x" * 1234)
        == f'"{"x" * 1000} (234 more characters are left out; zmon\'s commands show them with --json)"'
    )


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
def test_line_of_each_kind_of_value(value, expected):
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
    assert isinstance(evidence(pids=(7,)), msgspec.Struct)
