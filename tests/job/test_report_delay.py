"""Tests of the delay of reports, by which ages of several hosts are brought to the same moment."""

import pytest

from tests.build import NOW, agent_report, dead, rank_state, words
from zmon.job.report_delay import WINDOW_SECONDS, ReportDelay
from zmon.job.timeline import as_of_now

AHEAD = 5000.0  # the clock of the host minus the hub's


def delays(*reports):
    """Return the delay after each report, given as arrival and delay in seconds."""
    delay, seconds = ReportDelay(), []
    for arrival, late in reports:
        delay.add(arrival, arrival - late + AHEAD)
        seconds.append(delay.seconds)
    return seconds


def test_report_is_late_by_what_it_took_longer_than_the_fastest():
    assert delays((1, 0.002), (2, 0.802), (3, 0.002), (4, 0.102)) == pytest.approx([0.0, 0.8, 0.0, 0.1])


def test_fastest_report_is_forgotten_after_the_window():
    *_, last = delays((0, 0.0), *((second, 0.5) for second in range(1, int(WINDOW_SECONDS) + 2)))
    assert last == pytest.approx(0.0)


def test_reports_of_another_clock_do_not_count():
    delay = ReportDelay()
    delay.add(1.0, 900.0)
    delay.restart()
    delay.add(2.0, 10.0)
    assert delay.seconds == 0.0


def test_ages_of_a_dead_rank_are_as_of_now():
    last_words = words("exception", "builtins.ValueError", "x", NOW)
    state = dead(1, 1.0, last_words=last_words, last_words_seconds=1.2, step_seconds=1.5, launcher_gone_seconds=0.4)
    (now,) = as_of_now(agent_report(state), 0.8).ranks
    ages = now.gone_seconds, now.last_words_seconds, now.step_seconds, now.launcher_gone_seconds
    assert ages == pytest.approx((1.8, 2.0, 2.3, 1.2))


def test_ages_of_a_living_rank_stay():
    """It may have gone on since then."""
    report = agent_report(rank_state(0))
    assert as_of_now(report, 0.8) == report
