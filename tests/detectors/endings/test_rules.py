"""Tests of the diagnosis of a rank that ended, and of endings that are no fault."""

import itertools
from dataclasses import replace

import pytest

from tests.build import (
    NOW,
    agent_report,
    dead,
    disconnected,
    finished,
    interrupted,
    killed,
    raised,
    rank_state,
    terminated,
    waiting,
    words,
)
from tests.detectors.stalls import STALL, detect, others
from zmon.job.timeline import snapshots


def test_killed_rank_is_the_culprit_and_its_peers_are_not():
    finding = detect(killed(2), *others(2, disconnected))
    assert (finding.cause, finding.ranks, finding.severity) == ("rank_exited", (2,), "critical")
    assert "SIGKILL" in finding.summary
    assert "nothing will restart the job" in finding.summary


def test_killed_rank_is_named_although_a_peer_raised_shortly_before():
    """The agent checks ten times a second, and the order of deaths within 0.3 s is not certain."""
    assert detect(killed(2, 1.0), raised(0, 1.2, "all_to_all failed"), *map(disconnected, (1, 3))).ranks == (2,)


def test_rank_that_the_launcher_killed_later_is_no_culprit():
    """torchrun kills a rank that has not ended 30 s after its SIGTERM."""
    assert detect(raised(1, 31.0), terminated(0, 30.9), terminated(2, 30.9), killed(3, 1.0)).ranks == (1,)


def test_killed_rank_is_named_while_its_peers_still_wait():
    assert detect(killed(2), *others(2)).ranks == (2,)


def test_stall_reports_nothing_in_the_first_half_second_after_a_death():
    """A finding at once might name a victim, because the agent may see the victim end first."""
    peers = [waiting(rank, 0.5) for rank in (1, 2, 3)]
    assert detect(disconnected(0, 0.1), *peers) is None
    assert detect(killed(0, 0.4), *peers) is None
    assert detect(killed(0, 0.5), *peers) is not None


def test_exception_is_reported_half_a_second_after_the_death():
    assert detect(raised(2, 0.2), *others(2)) is None
    assert detect(raised(2, 0.6), *others(2)).cause == "rank_exited"


def test_exception_is_named_with_its_first_line():
    finding = detect(raised(1, 1.2, "bad batch 17\nin shard 3"), *others(1, terminated))
    assert (finding.cause, finding.ranks) == ("rank_exited", (1,))
    assert "ValueError: bad batch 17;" in finding.summary
    assert finding.evidence.last_words.message == "bad batch 17\nin shard 3"


def test_exception_without_a_message_is_named_by_its_type():
    finding = detect(raised(1, 1.2, ""), *others(1, terminated))
    assert "ValueError:" in finding.summary


def test_exit_without_last_words_is_named_with_its_code():
    finding = detect(dead(3, exit_status="exit code 1"), *others(3, disconnected))
    assert (finding.cause, finding.ranks) == ("rank_exited", (3,))
    assert "exit code 1" in finding.summary


def test_rank_that_exited_with_a_code_is_named():
    left = finished(3, exit_status="exit code 3")
    assert detect(left, *others(3)).ranks == (3,)
    assert "exit code 3" in detect(left, *others(3)).summary


def test_death_without_exit_status_or_last_words_is_described_as_such():
    assert "killed without last words" in detect(dead(3), *others(3)).summary


def test_stall_reports_nothing_when_the_run_finishes():
    assert detect(*map(finished, range(4))) is None


def test_stall_reports_nothing_while_the_last_ranks_finish():
    assert detect(finished(0), finished(1), rank_state(2), rank_state(3)) is None


def test_stall_reports_nothing_when_all_ranks_are_terminated():
    assert detect(*map(terminated, range(4))) is None


def test_stall_reports_nothing_when_terminated_ranks_lose_their_peers():
    assert detect(terminated(0), terminated(1, 1.01), disconnected(2, 1.005), disconnected(3)) is None


def test_stall_reports_nothing_after_ctrl_c_for_any_mix_of_deaths():
    for mixed in itertools.permutations([interrupted, disconnected, interrupted, terminated]):
        assert detect(*(how(rank, 1.0 + rank * 0.03) for rank, how in enumerate(mixed))) is None


def test_stall_reports_nothing_while_a_cancelled_job_winds_down():
    assert detect(terminated(0), terminated(1), rank_state(2), rank_state(3)) is None


def test_stall_reports_nothing_while_only_victims_have_ended():
    """The culprit is about to be reported."""
    assert detect(disconnected(0), disconnected(1), waiting(2, 1.0), waiting(3, 1.0)) is None


def test_stall_ignores_victims_while_some_ranks_are_unwatched():
    """The culprit may be on the unwatched host."""
    assert detect(disconnected(0), disconnected(1), unwatched=[waiting(2), waiting(3)]) is None


def test_stall_is_reported_although_some_ranks_are_victims():
    assert detect(disconnected(0), disconnected(1), waiting(2), waiting(3)).cause == "unknown"


def test_connection_is_lost_if_all_ranks_are_victims():
    finding = detect(*map(disconnected, range(4)))
    assert (finding.cause, finding.ranks, finding.severity) == ("connection_lost", (), "critical")
    assert "no rank had failed before, and all 4 ranks died of it" in finding.summary


@pytest.mark.parametrize("gone", [0.6, 10.0, 29.9])
def test_death_is_a_warning_while_the_launcher_may_restart_the_job(gone):
    ranks = [killed(2, gone), *(terminated(rank, gone - 0.2) for rank in (0, 1, 3))]
    finding = detect(*(replace(rank, max_restarts=3) for rank in ranks))
    assert (finding.cause, finding.severity) == ("rank_exited", "warning")
    assert "3 restarts left" in finding.summary


def test_death_is_critical_after_thirty_seconds_without_a_restart():
    assert detect(replace(killed(2, 30.0), max_restarts=3), *others(2, terminated)).severity == "critical"


def test_death_stays_a_warning_while_the_launchers_new_processes_start():
    ranks = [killed(2, 80.0, relaunched_seconds=70.0), *(terminated(rank, 79.8) for rank in (0, 1, 3))]
    finding = detect(*(replace(rank, max_restarts=3) for rank in ranks))
    assert (finding.severity, finding.ranks) == ("warning", (2,))
    assert "the launcher started its processes again 1 min 10 s ago" in finding.summary


def test_death_is_critical_if_the_launchers_new_processes_never_become_ranks():
    rank = replace(killed(2, 150.0), max_restarts=3, relaunched_seconds=121.0)
    assert detect(rank, *others(2, terminated)).severity == "critical"


def test_death_says_how_many_restarts_the_launcher_has_used():
    texts = [detect(replace(killed(2, 1.0), max_restarts=n, restart_count=n)).summary for n in (1, 3)]
    assert ["used its only restart" in texts[0], "used all its 3 restarts" in texts[1]] == [True, True]


def test_death_is_critical_at_once_if_no_restart_is_left():
    no_restarts_left = {"max_restarts": 3, "restart_count": 3}
    assert detect(replace(killed(2), **no_restarts_left), *others(2, terminated)).severity == "critical"
    assert detect(replace(killed(2), max_restarts=None), *others(2, terminated)).severity == "critical"


def test_stall_reports_nothing_once_the_launcher_has_restarted_the_job():
    before = [replace(r, start=NOW - 60) for r in (killed(2, 5.0), *others(2, terminated))]
    again = [rank_state(r, attempt=1, restart_count=1, start=NOW - 3, activity="init") for r in range(4)]
    (finding,) = snapshots([agent_report(*before, *again)], [], [], NOW)
    assert STALL.detect(finding) == ()


def test_exception_that_the_launcher_turned_into_an_exit_code_is_in_the_summary():
    """`torch.multiprocessing.spawn` does so."""
    error = "builtins.RuntimeError: cannot read shard 17"
    last_words = replace(words("exception", "builtins.SystemExit", "1"), root=error, where="train.py:43, read")
    finding = detect(raised(3, last_words=last_words), *others(3))
    assert "during train: RuntimeError: cannot read shard 17 (in train.py:43, read)" in finding.summary


def test_last_rank_whose_box_is_left_ends_no_job_again():
    """The owner ended the job a quarter of an hour ago, and the boxes of the other ranks were removed already."""
    assert detect(disconnected(1, 899.0)) is None
    assert detect(disconnected(1, 599.0)) is not None
