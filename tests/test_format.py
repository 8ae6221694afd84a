"""Tests that text from outside is made plain (no escape sequence, no forged line), and of numbers as text."""

import json

import pytest

from zmon.errors import ZmonError
from zmon.format import number, plain, plain_json, plain_lines, size


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("loss", "loss"),
        ("Müller, 損失, 😀", "Müller, 損失, 😀"),
        ("a\nb\tc\r\nd", "a b c  d"),
        ("\x1b[2J\x1b]0;title\x07", "\\x1b[2J\\x1b]0;title\\x07"),
        ("\x9b31m", "\\x9b31m"),
        ("nod\u202eefas", "nod\\u202eefas"),
        ("a\u2028b", "a\\u2028b"),
        ("M\udcfcller", "M\ufffdller"),
        ("", ""),
    ],
)
def test_text_becomes_one_plain_line(text, result):
    assert plain(text) == result
    assert plain(result) == result, "plain text stays as it is"
    result.encode()


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("one\n\ttwo", "one\n\ttwo"),
        ("one\r\ntwo", "one\ntwo"),
        (" 10%\r 20%", " 10%\n 20%"),
        ("\x1b[1;31merror\x1b[0m", "error"),
        ("\x1b[2J\x07\udcff", "\\x1b[2J\\x07\ufffd"),
    ],
)
def test_text_of_several_lines_keeps_its_lines(text, result):
    assert plain_lines(text) == result
    assert plain_lines(result) == result


def test_texts_of_json_are_plain_and_those_of_several_lines_keep_their_lines():
    sent = {
        "host": "a\n\x1b[2J", "message": "line\nline \x1b[31m", "stack": "f\n\tg", "k\x07ey": {"stack": ["a\nb"]},
        "name": "😀 \"quoted\" \\n / é", "direction": "\u202e", "number": 1.5, "none": None,
    }  # fmt: skip
    for body in (json.dumps(sent), json.dumps(sent, ensure_ascii=False, separators=(",", ":"))):
        assert json.loads(plain_json(body.encode())) == {
            "host": "a \\x1b[2J", "message": "line\nline \\x1b[31m", "stack": "f\n\tg", "k\\x07ey": {"stack": ["a b"]},
            "name": "😀 \"quoted\" \\n / é", "direction": "\\u202e", "number": 1.5, "none": None,
        }  # fmt: skip


def test_json_with_bytes_that_are_not_utf_8_or_lone_surrogates_can_be_decoded():
    body = b'{"label": "M\xfcller", "other": "\\udcfc", "pair": "\\ud83d\\ude00"}'
    assert json.loads(plain_json(body)) == {"label": "M\ufffdller", "other": "\ufffd", "pair": "😀"}


def test_healthy_json_is_returned_as_it_is():
    body = b'{"host": "node-a", "ranks": [1, 2]}'
    assert plain_json(body) is body


def test_json_of_another_program_keeps_the_lines_of_all_texts():
    body = json.dumps({"original": "route:\n  receiver: x\x1b"}).encode()
    assert json.loads(plain_json(body, lines=True)) == {"original": "route:\n  receiver: x\\x1b"}


def test_line_of_an_error_is_plain():
    error = ZmonError("cannot read /dev/shm/a\x1b[2J", "no\nERROR forged", "Look\udcff")
    assert str(error) == "cannot read /dev/shm/a\\x1b[2J: no ERROR forged. Look\ufffd"


def test_sizes_have_at_most_three_digits_and_a_unit():
    sizes = [size(number) for number in (0, 999, 999.6, 1234, 5e9, 999.6e9, 2.05e12)]
    assert sizes == ["0 B", "999 B", "1 kB", "1.23 kB", "5 GB", "1 TB", "2.05 TB"]


def test_missing_number_is_formatted_as_nan():
    assert number(None) == "NaN"
    assert number(0.6931471) == "0.6931"
