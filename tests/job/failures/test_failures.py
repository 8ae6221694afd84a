"""Tests of every row of docs/failures.md."""

from time import process_time

import pytest

from scripts.failures_page import failures_page
from tests.job.failures.forms import printed, traceback
from tests.job.failures.rows import SECTIONS
from tests.places import REPOSITORY
from zmon.job.failures import Clues, classify
from zmon.job.failures.classes import CLASSES

ROWS = [row for rows in SECTIONS.values() for row in rows]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_end_of_a_launch_has_the_class_of_its_row(row):
    assert classify(row.clues).name == row.due


def test_every_class_has_a_row():
    assert {row.due for row in ROWS} == {row.name for row in CLASSES}


def test_clue_is_the_line_that_decided_in_plain_text_and_short():
    failure = classify(printed("", "", traceback("ValueError: \x1b[31mbad\x07 " + "x" * 300)).clues)
    assert failure.clue.startswith("ValueError: bad\\x07 xxx")
    assert len(failure.clue) == 200  # the longest clue


def test_page_of_the_docs_has_these_rows():
    assert (REPOSITORY / "docs/failures.md").read_text() == failures_page(), "run `make generate`"


def test_exception_without_a_traceback_is_not_explained_by_the_lines_before_an_earlier_one():
    output = (
        "ERROR: CUDA out of memory while warming up, retrying",
        *traceback("ValueError: bad batch, skipped").splitlines(),
        *(f"step {step}" for step in range(12)),
        "RuntimeError: the world ended",
    )
    assert classify(Clues(output=output)).name == "code_error"


@pytest.mark.parametrize("words", ["Error: x ", "shape ", "1%| 2/3 [", "step 1 ", "mismatch ", "\x1b[1m", "a\r"])
def test_long_lines_take_little_time(words):
    start = process_time()
    classify(Clues(output=(words * 20_000,) * 50, kernel_log=(words * 20_000,)))
    assert process_time() - start < 5  # the whole lines would take minutes
