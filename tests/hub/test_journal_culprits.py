"""Who is to blame is not said anew at each look, and not of those who died of waiting."""

import msgspec
import pytest

from tests.build import NOW, finding, rank_state
from zmon.detectors.parts.verdict import rank_row
from zmon.hub.journal import HOLD_SECONDS, Journal
from zmon.schema.evidence import Evidence, FlightRow


@pytest.fixture
def path(tmp_path):
    return tmp_path / "findings.jsonl"


@pytest.fixture
def journal(path):
    return Journal(path)


def lines(path):
    return len(path.read_text().splitlines())


def about(*ranks, cause="compute_hang", **changes):
    return finding(ranks=ranks, hosts=("node-a",) * len(ranks), cause=cause, **changes)


def test_culprits_that_flicker_are_quiet_and_cost_no_line(journal, path):
    journal.conclude(about(2), NOW)
    for number in range(400):
        journal.conclude(about(3 + number % 2), NOW + 1 + number / 4)
    assert journal.active()[0].ranks == (2,)
    assert lines(path) == 1


def test_other_culprits_are_taken_up_once_they_have_been_named_for_some_seconds(journal, path):
    journal.conclude(about(2), NOW)
    for seconds in (1, 2, HOLD_SECONDS + 0.9):
        journal.conclude(about(3, summary="rank 3"), NOW + seconds)
        assert (journal.active()[0].ranks, journal.active()[0].summary) == ((2,), about(2).summary)
    journal.conclude(about(3, summary="rank 3"), NOW + 1 + HOLD_SECONDS)
    assert (journal.active()[0].ranks, journal.active()[0].summary) == ((3,), "rank 3")
    assert lines(path) == 2


def test_other_culprits_that_were_not_named_for_a_while_begin_anew(journal):
    journal.conclude(about(2), NOW)
    for seconds in (1, 101, 102):
        journal.conclude(about(3), NOW + seconds)
    assert journal.active()[0].ranks == (2,)


def test_first_culprits_and_a_higher_severity_are_taken_up_at_once(journal):
    journal.conclude(finding(cause="unknown", ranks=(), hosts=(), severity="warning"), NOW)
    journal.conclude(about(2, severity="warning"), NOW + 1)
    assert journal.active()[0].ranks == (2,)
    journal.conclude(about(3, severity="critical"), NOW + 2)
    assert (journal.active()[0].ranks, journal.active()[0].severity) == ((3,), "critical")


# -- victims -----------------------------------------------------------------------------------------------


def row(rank, pid, op="all_reduce"):
    row = rank_row(rank_state(rank, pid=pid))
    return msgspec.structs.replace(row, op=op)


def hang(**changes):
    """Rank 2 computes for ever, the others wait for it."""
    rows = (row(0, 10), row(1, 11), row(2, 12, None), row(3, 13, None))
    flights = {"3": FlightRow(pending=(), num_pending=1), "1": FlightRow(error="its agent is silent")}
    return about(2, evidence=Evidence(ranks=rows, in_flight=flights), **changes)


def gone(*ranks, pids=(10, 11, 12, 13)):
    rows = tuple(row(rank, pid) for rank, pid in enumerate(pids))
    return about(*ranks, cause="rank_exited", evidence=Evidence(ranks=rows), summary="rank 0 exited: signal SIGABRT")


def exits(journal, found):
    """The verdict that they went, for long enough."""
    for seconds in (600, 602, 604):
        journal.conclude(found, NOW + seconds)
    return journal.active()[0]


@pytest.mark.parametrize("victims", [(0,), (0, 1, 3)])
def test_ranks_that_a_watchdog_ends_while_they_wait_do_not_take_the_culprits_place(journal, path, victims):
    journal.conclude(hang(severity="warning", summary="rank 2 hangs"), NOW)
    found = exits(journal, gone(*victims))
    assert (found.cause, found.ranks, found.severity) == ("compute_hang", (2,), "critical")
    assert found.summary == "rank 2 hangs; of those that waited for it: rank 0 exited: signal SIGABRT"
    assert (lines(path), Journal(path).active()[0].summary) == (2, found.summary)


@pytest.mark.parametrize(
    ("who", "pids"),
    [((2,), (10, 11, 12, 13)), ((0, 2), (10, 11, 12, 13)), ((0,), (90, 11, 12, 13))],
    ids=["the culprit itself", "with the culprit", "another start of it"],
)
def test_rank_that_went_of_its_own_accord_is_the_culprit(journal, who, pids):
    journal.conclude(hang(), NOW)
    found = exits(journal, gone(*who, pids=pids))
    assert (found.cause, found.ranks) == ("rank_exited", who)


def test_rank_that_waited_for_nobody_is_the_culprit_when_it_goes(journal):
    journal.conclude(about(2, evidence=Evidence(ranks=(row(0, 10, None), row(2, 12, None)))), NOW)
    assert exits(journal, gone(0)).cause == "rank_exited"
