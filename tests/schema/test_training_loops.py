"""Tests of loops as text, which a rank writes and an agent reads."""

import pytest

from zmon.schema.training_loops import LOOPS_BYTES, TrainingLoop, as_text, from_text

LOOPS = (TrainingLoop("/home/ann/my job/train.py", "main", 3, 9), TrainingLoop("run.py", "<module>", 12, 12))


def test_text_of_loops_is_read_back_unchanged():
    assert from_text(as_text(LOOPS)) == LOOPS
    assert from_text("") == ()


@pytest.mark.parametrize(
    "loop",
    [
        pytest.param(LOOPS[0]._replace(path="/home/ann/a\nb.py"), id="two lines"),
        pytest.param(LOOPS[0]._replace(path="/home/zoë/train.py"), id="not ASCII"),
        pytest.param(LOOPS[0]._replace(path=""), id="no path"),
        pytest.param(LOOPS[0]._replace(function="a b"), id="two words"),
        pytest.param(LOOPS[0]._replace(path="/" + "x" * 500), id="a path that faulthandler cuts"),
    ],
)
def test_loops_that_cannot_be_written_exactly_are_all_unknown(loop):
    assert as_text([*LOOPS, loop]) == ""


def test_loops_that_do_not_fit_are_all_unknown():
    assert as_text(LOOPS[1:] * 50)
    assert as_text(LOOPS[1:] * (LOOPS_BYTES // len(as_text(LOOPS[1:])))) == ""


@pytest.mark.parametrize("line", ["3-9 main", "3 main train.py", "a-b main train.py", "-1-2 main train.py", "x"])
def test_damaged_line_makes_all_loops_unknown(line):
    assert from_text(f"{as_text(LOOPS)}\n{line}") == ()
