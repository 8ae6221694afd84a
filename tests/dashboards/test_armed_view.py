"""Tests of the page Armed: checks with the same next step or result are one row."""

import pytest

from dashboards.views.armed import _row, group_checks, summary
from zmon.doctor import Check

START = "Start zmon hub."


@pytest.mark.parametrize(
    ("checks", "groups"),
    [
        ([Check("hub", False, "is down", START), Check("agents", False, "are unknown", START)], [["hub", "agents"]]),
        ([Check("hub", False, "is down", START), Check("rules", False, "are old", "Load them.")], [["hub"], ["rules"]]),
        ([Check("hub", False, "is down"), Check("agents", False, "are unknown")], [["hub"], ["agents"]]),
        ([Check("a", None, "no job runs"), Check("b", None, "no job runs")], [["a", "b"]]),
        ([Check("a", True, "works"), Check("b", None, "works")], [["a"], ["b"]]),  # one is armed, the other is not
    ],
)
def test_checks_with_the_same_next_step_or_result_are_one_group(checks, groups):
    assert [[check.name for check in group] for group in group_checks(checks)] == groups


@pytest.mark.parametrize(
    ("states", "sentence"),
    [
        ([True, True], "All checks are armed."),
        ([True, False, None], "1 of 3 checks are inert."),
        ([True, None, None], "No check is inert: 1 armed, 2 absent (nothing to watch, or not known yet)."),
        ([None], "No check is inert: 0 armed, 1 absent (nothing to watch, or not known yet)."),
    ],
)
def test_summary_says_that_all_checks_are_armed_only_if_each_is(states, sentence):
    assert summary([Check("hub", state, "") for state in states]) == sentence


@pytest.mark.parametrize(
    ("results", "names", "cell"),
    [
        pytest.param({"hub": "is down"}, "hub", "is down", id="one check"),
        pytest.param(dict.fromkeys("abc", "is down"), "3 checks: a, b, c", "is down", id="equal results"),
        pytest.param({"a": "is down", "b": "is old"}, "2 checks: a, b", "a: is down<br>b: is old", id="other results"),
    ],
)
def test_row_of_a_group_has_each_result_and_the_next_step_once(results, names, cell):
    row = _row([Check(name, False, result, START) for name, result in results.items()])
    assert f"<td>{names}</td><td>{cell}</td><td>{START}</td>" in row
