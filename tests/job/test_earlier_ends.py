"""Tests of what a hub still knows about ends after their agent was restarted."""

from tests.build import agent_report, dead, interrupted, killed, rank_state
from zmon.job.earlier_ends import with_earlier_ends

UNWATCHED = {"watched": False}


def completed(state, earlier, seconds=10.0):
    """Return the state that follows from a report after an earlier one."""
    (answer,) = with_earlier_ends(agent_report(state), agent_report(earlier), seconds).ranks
    return answer


def test_end_that_the_agent_watched_before_it_was_restarted_stays_known():
    state = completed(dead(0, 55.0, **UNWATCHED), killed(0, 3.0))
    assert (state.exit_status, state.gone_seconds, state.watched) == ("signal SIGKILL", 13.0, True)


def test_end_stays_known_for_as_many_reports_as_come():
    first = completed(dead(0, 55.0, **UNWATCHED), killed(0, 3.0))
    assert completed(dead(0, 56.0, **UNWATCHED), first, 1.0).exit_status == "signal SIGKILL"


def test_rank_that_ended_while_the_agent_was_down_lived_at_the_earlier_report():
    """Its last sign of life may be long ago, because it waited in a collective."""
    state = completed(dead(0, 55.0, **UNWATCHED), rank_state(0))
    assert (state.exit_status, state.gone_seconds, state.watched) == (None, 10.0, False)


def test_end_of_a_launcher_stays_known_after_a_restart():
    gone = {"launcher_status": "signal SIGINT", "launcher_gone_seconds": 4.0}
    state = completed(dead(0, 55.0, **UNWATCHED), interrupted(0, 3.0, **gone))
    assert (state.launcher_status, state.launcher_gone_seconds) == ("signal SIGINT", 14.0)


def test_launcher_of_living_ranks_that_ended_before_the_restart_stays_known():
    earlier = rank_state(0, launcher_status="signal SIGKILL", launcher_gone_seconds=4.0)
    state = completed(rank_state(0, launcher_gone_seconds=0.0), earlier)
    assert (state.launcher_status, state.launcher_gone_seconds, state.alive) == ("signal SIGKILL", 14.0, True)


def test_processes_that_the_launcher_started_again_stay_known():
    state = completed(dead(0, 55.0, **UNWATCHED), killed(0, 3.0, relaunched_seconds=2.0))
    assert state.relaunched_seconds == 12.0
    newest = completed(dead(0, 55.0, **UNWATCHED, relaunched_seconds=1.0), killed(0, 3.0, relaunched_seconds=2.0))
    assert newest.relaunched_seconds == 1.0, "the launcher has started them once more"


def test_rank_of_another_run_has_its_own_end():
    state = dead(0, 55.0, run_uid="another", **UNWATCHED)
    assert completed(state, killed(0)) == state


def test_report_of_an_agent_that_watched_all_ends_is_unchanged():
    report = agent_report(killed(0), rank_state(1))
    assert with_earlier_ends(report, agent_report(rank_state(0), rank_state(1)), 1.0) is report
