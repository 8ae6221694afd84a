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


def test_group_has_its_next_step_once_and_each_result():
    row = _row([Check("hub", False, "is down", START), Check("agents", False, "are unknown", START)])
    assert row.count(START) == 1
    assert "<td>2 checks: hub, agents</td><td>hub: is down<br>agents: are unknown</td>" in row


def test_row_has_equal_results_once():
    row = _row([Check(name, None, "no job runs") for name in "abc"])
    assert "<td>3 checks: a, b, c</td><td>no job runs</td>" in row


def test_group_of_one_has_its_name_only():
    assert "<td>hub</td><td>is down</td>" in _row([Check("hub", False, "is down", START)])
