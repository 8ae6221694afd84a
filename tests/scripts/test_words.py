"""Tests of the check of names and docstrings, on sources of a few lines."""

import pytest

from scripts.words import c_problems, problems, shared_classes


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("x = 1\nfound = 2\n", 2),
        ("def told() -> None: ...\n", 1),
        ("def f(said: int) -> None: ...\n", 1),
        ("class Thing:\n    _kept: int = 0\n", 2),
        ("for seen in (): ...\n", 1),
        ("self.here = 1\n", 1),
        ("own = 0.06\n", 1),
        ("slow = lambda own: own\n", 1),
        ("\ndef f(*named): ...\n", 2),
        ("def _waited() -> bool: ...\n", 1),
        ("class Verdict: ...\n", 1),
        ("class Result:\n    verdict: str\n", 2),
    ],
)
def test_name_that_says_nothing_is_a_problem(source, line):
    assert [problem.line for problem in problems(source)] == [line]


@pytest.mark.parametrize("source", ['"""Of the ranks, the slow."""\n', 'def f():\n    """Whether it runs."""\n'])
def test_docstring_that_begins_with_no_statement_is_a_problem(source):
    assert len(list(problems(source))) == 1


@pytest.mark.parametrize(
    "source",
    [
        '"""The ranks of one launch. Of these, the slow come first."""\n',
        'def f():\n    """Return what was asked for."""\n',
        "answer = told(here)\n",  # names that another library chose
        'row["found"] = 1\n',  # a key
        'result: str = msgspec.field(name="verdict")\n',
        "self_time = slow(own=0.06, own_host=named)\n",
        "def f(): ...\n",
    ],
)
def test_words_are_quiet_about_plain_statements(source):
    assert list(problems(source)) == []


@pytest.mark.parametrize(
    "declaration",
    [
        "    PyObject *own = NULL;",
        "static int found(void)",
        "int f(const char *path, int64_t named)",
        "    Py_ssize_t number = f(a, b), waited = 0;",
        "    int64_t sent, kept;",
        "typedef struct { int number; } Seen;",
        "static int (*told)(clockid_t, struct timespec *);",
        "#define OWN 1",
    ],
)
def test_name_in_c_that_says_nothing_is_a_problem(declaration):
    source = f"/* The rank's own\n * number, found here. */\n\n{declaration}\n"
    assert [problem.line for problem in c_problems(source)] == [4]


@pytest.mark.parametrize(
    "code",
    [
        "int number = f(own, found) * own; /* int found; */",
        'raise("%s own = found;", name); // int own;',
        "    return found;",
        "    if (number == own || own != NULL) f(&found);",
        "    PyObject *own_thread = is_own_thread, *name_of_found_inf;",
    ],
)
def test_words_are_quiet_about_uses_and_comments_in_c(code):
    assert list(c_problems(code)) == []


def test_class_in_two_files_is_named_with_both():
    sources = [("a.py", "class Job: ...\nclass _Row: ...\n"), ("b.py", "class Job: ...\nclass _Row: ...\n")]
    assert shared_classes(sources) == {"Job": ["a.py", "b.py"]}
