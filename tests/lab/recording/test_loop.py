"""Tests of the part of a recording that is played again: all ranks do the same number of steps in it."""

import pytest

from lab.recording.loop import LONGEST_SECONDS, SHORTEST_SECONDS, loop
from tests.build import agent_report, rank_state
from zmon.errors import ZmonError
from zmon.stack.replay import HostRecording, RecordedReport


def host(steps_after):
    """Return the recording of a host for 100 s. `steps_after` returns the steps of its rank after a second."""
    reports = [agent_report(rank_state(0, steps=int(steps_after(second)))) for second in range(100)]
    return HostRecording("node-a", [RecordedReport(float(at), report) for at, report in enumerate(reports)], [])


def test_ranks_in_step_repeat_the_longest_part_before_the_end():
    hosts = [host(lambda second: 3 * second)] * 2
    assert loop(hosts, 99.0) == (99.0 - LONGEST_SECONDS, 99.0)


def test_rank_that_is_a_step_ahead_at_the_end_shifts_the_part():
    ahead = host(lambda second: 3 * second + (second > 97))
    start, end = loop([host(lambda second: 3 * second), ahead], 99.0)
    assert 97.0 <= end < 98.0
    assert end - start >= SHORTEST_SECONDS


def test_host_that_does_not_answer_is_ignored():
    silent = HostRecording("node-b", [RecordedReport(0.0, None)], [])
    assert loop([host(lambda second: 0), silent], 99.0)[1] == 99.0


def test_ranks_that_are_never_in_step_have_no_part():
    with pytest.raises(ZmonError, match="no part of the recording"):
        loop([host(lambda second: 3 * second), host(lambda second: 5 * second)], 99.0)
