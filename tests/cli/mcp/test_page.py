"""Tests of the length of an answer: whole lines, at most 8,000 characters, and nothing is left out in silence."""

import re

import pytest

from tests.cli.mcp.hostile import data_of
from zmon.cli.mcp.page import MAX_CHARACTERS, page

HEAD = ["3 things."]


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
    assert pages == 1 or "This is the end of 300 lines" in answer


def test_line_that_has_no_room_is_replaced_and_does_not_stop_the_pages():
    answer = page(HEAD, ["a", "x" * 9000, "b"], 1)
    assert data_of(answer) == ["(a line of 9,000 characters is left out)", "b"]


def test_page_that_the_hub_has_cut_counts_all_rows():
    assert page(HEAD, ["c"], 2, total=9).endswith("Left out: 6 of 9 lines. For the next ones, ask again with offset=3.")


@pytest.mark.parametrize(("offset", "note"), [(7, "end of 2 lines; 2 were before"), (-3, "b\n</data-from-jobs>")])
def test_offset_outside_of_the_lines(offset, note):
    assert note in page(HEAD, ["a", "b"], offset)
