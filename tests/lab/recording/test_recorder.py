"""Tests of silence in a recording: a busy machine causes some, a host that is lost stays silent."""

from lab.recording.recorder import longest_pause, without_gaps
from tests.build import agent_report
from zmon.stack.replay import RecordedReport


def reports(*answers):
    """Return a report for each second; 0: the agent did not answer."""
    return [RecordedReport(float(at), agent_report() if answer else None) for at, answer in enumerate(answers)]


def times(reports):
    return [report.at for report in reports]


def test_silence_between_two_reports_is_left_out():
    assert times(without_gaps(reports(1, 0, 1, 0, 0, 1))) == [0.0, 2.0, 5.0]


def test_silence_up_to_the_end_stays():
    assert times(without_gaps(reports(1, 0, 1, 0, 0))) == [0.0, 2.0, 3.0, 4.0]


def test_longest_pause_is_that_before_the_fault():
    assert longest_pause(without_gaps(reports(1, 1, 0, 0, 1, 0, 0, 0)), 4.5) == 3.0
