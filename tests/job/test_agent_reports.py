"""Tests of the reports of agents: their delay, earlier ends, and the jobs of one shard."""

from dataclasses import replace

import pytest

from tests.build import NOW, agent_report, dead, interrupted, killed, rank_state, step_record, words
from zmon.job.agent_reports import (
    WINDOW_SECONDS,
    ReportDelay,
    as_of_now,
    of_shard,
    suspects_of_shard,
    with_earlier_ends,
)
from zmon.schema.api import Suspicion
from zmon.schema.api.agent import UnreadRank
from zmon.schema.rank import InFlight
from zmon.schema.shard import Shard

AHEAD = 5000.0  # the clock of the host minus the hub's
OURS, OTHERS = Shard(1, 4), Shard(3, 4)  # job `b` is in the first one, job `a` in the second: see test_shard.py


# -- delay -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reports", "delays"),  # reports: the second of its arrival, and the seconds that it travelled
    [
        ([(1, 0.002), (2, 0.802), (3, 0.002), (4, 0.102)], [0.0, 0.8, 0.0, 0.1]),
        ([(0, 0.0), *((n, 0.5) for n in range(1, int(WINDOW_SECONDS) + 2))], [0.0, *[0.5] * int(WINDOW_SECONDS), 0.0]),
    ],
    ids=["later than the fastest", "the fastest is forgotten"],
)
def test_delay_of_a_report_is_what_it_took_longer_than_the_fastest(reports, delays):
    delay, seconds = ReportDelay(), []
    for arrival, travel in reports:
        delay.add(arrival, arrival - travel + AHEAD)
        seconds.append(delay.seconds)
    assert seconds == pytest.approx(delays)


def test_reports_of_another_clock_do_not_count():
    delay = ReportDelay()
    delay.add(1.0, 900.0)
    delay.restart()
    delay.add(2.0, 10.0)
    assert delay.seconds == 0.0


AGES = {
    "activity_seconds": 50.0, "step_seconds": 1.5, "state_seconds": 0.7, "open_seconds": 60.0,
    "relaunched_seconds": 0.2, "launcher_gone_seconds": 0.4,
}  # fmt: skip
LAST_WORDS = {"last_words": words("exception", "builtins.ValueError", "x", NOW), "last_words_seconds": 1.2}
ENDING = {
    "ended without last words": (dead(1, 1.0, **AGES), {**AGES, "gone_seconds": 1.0}),
    "about to end": (
        rank_state(1, leaving_seconds=0.3, **AGES, **LAST_WORDS),
        {**AGES, "leaving_seconds": 0.3, "last_words_seconds": 1.2},
    ),
}


@pytest.mark.parametrize(("state", "ages"), ENDING.values(), ids=ENDING)
def test_ages_of_a_rank_that_ends_are_as_of_now(state, ages):
    waiting_in = InFlight("all_reduce", "0", 301, 4096, 5.0)
    report = agent_report(replace(state, in_flight=waiting_in), rank_state(0))
    now, living = as_of_now(report, 0.8).ranks
    assert {name: getattr(now, name) for name in ages} == pytest.approx({name: age + 0.8 for name, age in ages.items()})
    assert now.in_flight == replace(waiting_in, seconds=5.8)
    unknown = {"gone_seconds", "leaving_seconds", "last_words_seconds"} - ages.keys()
    assert [getattr(now, name) for name in unknown] == [None] * len(unknown)
    assert living == rank_state(0)  # it may have gone on since then


# -- earlier ends ------------------------------------------------------------------------------------------


def unwatched(**changes):
    """Return a rank that ended before its agent was started again; its last sign of life was 55 s ago."""
    return dead(0, 55.0, watched=False, **changes)


def completed(state, earlier):
    """Return the state that follows from a report 10 s after an earlier one."""
    (answer,) = with_earlier_ends(agent_report(state), agent_report(earlier), 10.0).ranks
    return answer


LAUNCHER = {"launcher_status": "signal SIGINT", "launcher_gone_seconds": 4.0}
STILL_GONE = {"launcher_status": "signal SIGINT", "launcher_gone_seconds": 14.0}
CASES = {
    "the agent watched the end": (
        unwatched(), killed(0, 3.0), {"exit_status": "signal SIGKILL", "gone_seconds": 13.0, "watched": True}),
    "the end was known from an earlier report": (
        unwatched(), completed(unwatched(), killed(0, 3.0)), {"exit_status": "signal SIGKILL", "gone_seconds": 23.0}),
    "the rank ended while the agent was down": (
        unwatched(), rank_state(0), {"exit_status": None, "gone_seconds": 10.0, "watched": False}),
    "the launcher ended": (unwatched(), interrupted(0, 3.0, **LAUNCHER), STILL_GONE),
    "the launcher of living ranks ended": (
        rank_state(0, launcher_gone_seconds=0.0), rank_state(0, **LAUNCHER), {**STILL_GONE, "alive": True}),
    "the launcher started again": (unwatched(), killed(0, relaunched_seconds=2.0), {"relaunched_seconds": 12.0}),
    "the launcher started once more": (
        unwatched(relaunched_seconds=1.0), killed(0, relaunched_seconds=2.0), {"relaunched_seconds": 1.0}),
    "another launch": (unwatched(run_uid="another"), killed(0), {"exit_status": None, "gone_seconds": 55.0}),
}  # fmt: skip


@pytest.mark.parametrize(("state", "earlier", "known"), CASES.values(), ids=CASES)
def test_end_stays_known_after_the_agent_was_restarted(state, earlier, known):
    answer = completed(state, earlier)
    assert {name: getattr(answer, name) for name in known} == known


def test_report_of_an_agent_that_watched_all_ends_is_unchanged():
    report = agent_report(killed(0), rank_state(1))
    assert with_earlier_ends(report, agent_report(rank_state(0), rank_state(1)), 1.0) is report


# -- shards: an older agent reports the jobs of all -----------------------------------------------------------


def report():
    """Return the report of an older agent: jobs `a` and `b`, each with steps and a rank that cannot be read."""
    ranks = (rank_state(0, job_id="a", run_uid="a0"), rank_state(0, job_id="b", run_uid="b0"))
    records = {"a": {"a0": (step_record(1),)}, "b": {"b0": (step_record(1),)}}
    unread = (UnreadRank("a", 1, "damaged", "cut", 9.0), UnreadRank("b", 1, "damaged", "cut", 9.0))
    return agent_report(*ranks, records=records, unread=unread)


@pytest.mark.parametrize(("index", "job_ids"), [(0, []), (1, ["b"]), (2, []), (3, ["a"])])
def test_only_the_jobs_of_the_shard_are_kept(index, job_ids):
    part = of_shard(report(), Shard(index, 4))
    assert [r.job_id for r in part.ranks] == [*part.steps] == [rank.job_id for rank in part.unread] == job_ids


def test_job_that_an_agent_has_renamed_keeps_its_shard():
    renamed = replace(report().ranks[0], job_id="a.uid3", wanted_job_id="a")
    assert [r.job_id for r in of_shard(agent_report(renamed), OTHERS).ranks] == ["a.uid3"]


def test_suspects_of_other_shards_start_no_pass():
    suspects = (Suspicion("a", 0, "stopped"), Suspicion("b", 0, "stopped"))
    assert suspects_of_shard(suspects, OURS) == suspects[1:]
