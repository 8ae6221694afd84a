"""The check of names and docstrings, on sources of a few lines."""

from __future__ import annotations

import pytest

from scripts.words import problems, shared_classes


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("x = 1\nfound = 2\n", 2),
        ("def told() -> None: ...\n", 1),
        ("def f(said: int) -> None: ...\n", 1),
        ("class Thing:\n    _kept: int = 0\n", 2),
        ("for seen in (): ...\n", 1),
        ("self.here = 1\n", 1),
    ],
)
def test_name_that_says_nothing_is_a_problem(source: str, line: int) -> None:
    assert [problem.line for problem in problems(source)] == [line]


@pytest.mark.parametrize("source", ['"""Of the ranks, the slow."""\n', 'def f():\n    """Whether it runs."""\n'])
def test_docstring_that_begins_with_no_statement_is_a_problem(source: str) -> None:
    assert len(list(problems(source))) == 1


@pytest.mark.parametrize(
    "source",
    [
        '"""The ranks of one launch. Of these, the slow come first."""\n',
        'def f():\n    """Return what was asked for."""\n',
        "answer = told(here)\n",  # names that another library chose
        'row["found"] = 1\n',  # a key
        "def f(): ...\n",
    ],
)
def test_words_are_quiet_about_plain_statements(source: str) -> None:
    assert list(problems(source)) == []


def test_class_in_two_files_is_named_with_both() -> None:
    sources = [("a.py", "class Job: ...\nclass _Row: ...\n"), ("b.py", "class Job: ...\nclass _Row: ...\n")]
    assert shared_classes(sources) == {"Job": ["a.py", "b.py"]}
