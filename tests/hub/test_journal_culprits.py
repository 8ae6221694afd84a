"""Tests of the culprits in the journal: they do not flicker, and victims do not become culprits."""

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.build import NOW, finding, opened_id, rank_state, words
from zmon.detectors.new_finding import rank_row
from zmon.hub.culprit_hold import HOLD_SECONDS
from zmon.hub.journal import Journal
from zmon.job.merging import joined
from zmon.schema.evidence import Evidence
from zmon.schema.gathered import FlightRow
from zmon.schema.names import severity_order
from zmon.schema.pause import Silence


def num_lines(path):
    return len(path.read_text().splitlines())


def finding_of(*ranks, cause="compute_hang", **changes):
    return finding(ranks=ranks, hosts=("node-a",) * len(ranks), cause=cause, **changes)


def test_flickering_culprits_write_no_line(journal, journal_path):
    journal.open_or_update(finding_of(2), NOW)
    for number in range(400):
        journal.open_or_update(finding_of(3 + number % 2), NOW + 1 + number / 4)
    assert journal.active()[0].ranks == (2,)
    assert num_lines(journal_path) == 1


def test_new_culprits_are_published_after_some_seconds(journal, journal_path):
    journal.open_or_update(finding_of(2), NOW)
    for seconds in (1, 2, HOLD_SECONDS + 0.9):
        journal.open_or_update(finding_of(3, summary="rank 3"), NOW + seconds)
        assert (journal.active()[0].ranks, journal.active()[0].summary) == ((2,), finding_of(2).summary)
    journal.open_or_update(finding_of(3, summary="rank 3"), NOW + 1 + HOLD_SECONDS)
    assert (journal.active()[0].ranks, journal.active()[0].summary) == ((3,), "rank 3")
    assert num_lines(journal_path) == 2


def pair(*hosts, cause="connection_lost", summary="between rank 0 and rank 5"):
    """Return a finding about the network between hosts."""
    return finding(cause=cause, ranks=(), hosts=hosts, summary=summary)


PAIR, NO_PAIR = pair("node-0", "node-2"), pair(summary="not known between which ranks")
CUT, OTHER_CUT = (pair(host, cause="network_stall") for host in ("node-0", "node-1"))


PASSES = {
    # The samples that prove a lost connection are kept for a minute.
    "hosts of a lost connection stay once the samples that proved them are gone": (
        [(0, PAIR), *((seconds, NO_PAIR) for seconds in range(60, 80))],
        PAIR,
    ),
    "other hosts are not published at once": ([(0, CUT), (1, OTHER_CUT), (2, OTHER_CUT)], CUT),
    "ranks are not published at once when a link heals": ([(0, CUT), (1, finding_of(2)), (2, finding_of(2))], CUT),
    "other hosts are published after some seconds": (
        [(0, CUT), (1, OTHER_CUT), (2, OTHER_CUT), (1 + HOLD_SECONDS, OTHER_CUT)],
        OTHER_CUT,
    ),
    "hold time restarts after a gap": (
        [(0, finding_of(2)), *((seconds, finding_of(3)) for seconds in (1, 101, 102))],
        finding_of(2),
    ),
    "exit of a rank that hung is published at once": (
        [(0, finding_of(2)), (1, finding_of(2, cause="rank_exited"))],
        finding_of(2, cause="rank_exited"),
    ),
    "first culprits are published at once": ([(0, finding_of(cause="unknown")), (1, finding_of(2))], finding_of(2)),
    "higher severity is published at once": (
        [(0, finding_of(2, severity="warning")), (1, finding_of(3, severity="critical"))],
        finding_of(3, severity="critical"),
    ),
}


@pytest.mark.parametrize(("reports", "published"), PASSES.values(), ids=PASSES)
def test_culprits_are_those_of_a_report_that_counts(journal, reports, published):
    for seconds, report in reports:
        journal.open_or_update(report, NOW + seconds)
    (current,) = journal.active()
    assert (current.cause, current.ranks, current.hosts, current.severity, current.summary) == (
        published.cause, published.ranks, published.hosts, published.severity, published.summary,
    )  # fmt: skip


def test_kind_of_a_hang_stays_while_its_rank_goes_through_other_phases_after_it(journal):
    """A rank whose hang has ended loads its next batch before the step is over."""
    journal.open_or_update(finding_of(2, cause="compute_hang"), NOW)
    for seconds, cause in ((1, "input_stall"), (2, "compute_hang"), (3, "input_stall"), (5, "input_stall")):
        journal.open_or_update(finding_of(2, cause=cause), NOW + seconds)
        assert journal.active()[0].cause == "compute_hang"
    journal.open_or_update(finding_of(2, cause="input_stall"), NOW + 3 + HOLD_SECONDS)
    assert journal.active()[0].cause == "input_stall"


# -- victims -----------------------------------------------------------------------------------------------


def row(rank, pid, op="all_reduce"):
    """Return the row of a rank in the evidence; it waits in `op`."""
    return msgspec.structs.replace(rank_row(rank_state(rank, pid=pid)), op=op)


def all_rows():
    return row(0, 10), row(1, 11), row(2, 12, None), row(3, 13, None)


def hang(**changes):
    """Return the finding that rank 2 computes for ever and the others wait for it."""
    flights = {"3": FlightRow(pending=(), num_pending=1), "1": FlightRow(error="its agent is silent")}
    return finding_of(2, evidence=Evidence(ranks=all_rows(), in_flight=flights), **changes)


def exited(*ranks, pids=(10, 11, 12, 13), status=None, **changes):
    """Return the finding that these ranks exited; its rows are those of the hang."""
    rows = [row(rank, pid, None if rank >= 2 else "all_reduce") for rank, pid in enumerate(pids)]
    for rank in ranks:
        rows[rank] = msgspec.structs.replace(rows[rank], alive=False, exit_status=status)
    changes = {"summary": "rank 0 exited: signal SIGABRT", **changes}
    return finding_of(*ranks, cause="rank_exited", evidence=Evidence(ranks=tuple(rows)), **changes)


def after_exits(journal, current):
    """Report this finding for long enough; return the active one."""
    for seconds in (600, 602, 604):
        journal.open_or_update(current, NOW + seconds)
    return journal.active()[0]


@pytest.mark.parametrize("victims", [(0,), (0, 1, 3)])
def test_victims_that_a_watchdog_aborts_do_not_replace_the_culprit(journal, journal_path, victims):
    journal.open_or_update(hang(severity="warning", summary="rank 2 hangs"), NOW)
    current = after_exits(journal, exited(*victims))
    assert (current.cause, current.ranks, current.severity) == ("compute_hang", (2,), "critical")
    assert current.summary == "rank 2 hangs; victims: rank 0 exited: signal SIGABRT"
    assert (num_lines(journal_path), Journal(journal_path).active()[0].summary) == (2, current.summary)


@pytest.mark.parametrize(
    ("error", "message", "cause", "ranks"),
    [
        ("builtins.ValueError", "bad sample in shard 17", "rank_exited", (0,)),
        ("builtins.RuntimeError", "[gloo/transport/tcp/pair.cc:547] Connection closed by peer", "compute_hang", (2,)),
    ],
    ids=["error of its own", "broken connection"],
)
def test_rank_that_raised_an_error_of_its_own_is_no_victim_though_it_had_waited(journal, error, message, cause, ranks):
    """The pause of rank 2 was over, and rank 0 trained on until it met a bad sample."""
    journal.open_or_update(hang(severity="warning", summary="rank 2 hangs"), NOW)
    end = exited(0, severity="critical")
    last_words = words("exception", error, message, NOW + 599)
    current = after_exits(journal, replace(end, evidence=msgspec.structs.replace(end.evidence, last_words=last_words)))
    assert (current.cause, current.ranks, current.severity) == (cause, ranks, "critical")


SILENCE = Silence(2.0, 20.0, (), None, "it becomes critical after 20 s")
OUTLOOK = {"severity": "warning", "summary": f"rank 2 hangs; {SILENCE.reason}"}


def patient(published):
    """Return the finding as it is while only silence shows the stall."""
    return replace(published, **OUTLOOK, evidence=msgspec.structs.replace(published.evidence, silence=SILENCE))


def test_victims_leave_no_time_at_which_the_finding_becomes_critical(journal):
    """Their report has made it critical."""
    journal.open_or_update(patient(hang()), NOW)
    current = after_exits(journal, exited(0, severity="critical"))
    assert (current.severity, current.summary) == (
        "critical", "rank 2 hangs; victims: rank 0 exited: signal SIGABRT",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (patient(finding_of(2)), finding_of(severity="critical", summary="somebody hangs")),
        # The silence is critical; a rank that changed its phase starts the time again.
        (finding_of(2, severity="critical", summary="rank 2 hangs"), patient(finding_of(2))),
    ],
    ids=["critical report without culprits", "later warning"],
)
def test_critical_finding_has_no_time_at_which_it_becomes_critical(journal, first, second):
    journal.open_or_update(first, NOW)
    journal.open_or_update(second, NOW + 1)
    (current,) = journal.active()
    assert (current.ranks, current.severity, current.summary) == ((2,), "critical", "rank 2 hangs")


@pytest.mark.parametrize(
    ("who", "pids"),
    [((2,), (10, 11, 12, 13)), ((0, 2), (10, 11, 12, 13)), ((0,), (90, 11, 12, 13))],
    ids=["the culprit itself", "with the culprit", "another launch of it"],
)
def test_rank_that_exits_by_itself_is_the_culprit(journal, who, pids):
    journal.open_or_update(hang(), NOW)
    current = after_exits(journal, exited(*who, pids=pids))
    assert (current.cause, current.ranks) == ("rank_exited", who)


def test_rank_that_exits_without_having_waited_is_the_culprit(journal):
    journal.open_or_update(finding_of(2, evidence=Evidence(ranks=(row(0, 10, None), row(2, 12, None)))), NOW)
    assert after_exits(journal, exited(0)).cause == "rank_exited"


# -- faults that overlap -----------------------------------------------------------------------------------


def frozen_and_killed():
    """Return what the detector reports once rank 0 was killed while rank 2 is frozen."""
    killed_ = finding_of(0, cause="rank_exited", onset=NOW + 1, summary="rank 0 exited", detail="dmesg")
    return joined(finding_of(2, cause="rank_frozen", severity="warning"), killed_)


def test_second_culprit_joins_the_finding_at_once(journal, journal_path):
    journal.open_or_update(finding_of(2, cause="rank_frozen", severity="warning"), NOW)
    journal.open_or_update(frozen_and_killed(), NOW + 1)
    (current,) = journal.active()
    assert current.id == opened_id()
    assert (current.cause, current.ranks, current.severity) == ("rank_frozen", (2, 0), "critical")
    assert "; also: rank 0 exited" in current.summary
    assert "dmesg" in current.detail
    (published,) = journal.published()
    assert (published.cause, published.ranks, published.severity) == ("rank_frozen", (2,), "critical")
    assert Journal(journal_path).active() == [current]


def test_first_cause_stays_when_the_second_fault_is_reported_before_it(journal):
    journal.open_or_update(finding_of(0, cause="rank_exited"), NOW)
    journal.open_or_update(frozen_and_killed(), NOW + 1)
    (current,) = journal.active()
    assert (current.cause, set(current.ranks)) == ("rank_exited", {0, 2})


def test_culprit_whose_process_the_launcher_ended_stays_named(journal):
    journal.open_or_update(frozen_and_killed(), NOW)
    for seconds in range(1, 60):
        journal.open_or_update(finding_of(0, cause="rank_exited"), NOW + seconds)
    assert journal.active()[0].ranks == (2, 0)


RANK_0_STOPPED = (msgspec.structs.replace(all_rows()[0], process_state="T"), *all_rows()[1:])
OWN_FAULTS = {
    "ended by a signal": exited(0, onset=NOW + 60, summary="rank 0 exited: signal SIGKILL", status="signal SIGKILL"),
    "stopped": finding_of(0, cause="rank_frozen", onset=NOW + 60, evidence=Evidence(ranks=RANK_0_STOPPED)),
}


@pytest.mark.parametrize("later", OWN_FAULTS.values(), ids=OWN_FAULTS)
def test_rank_with_a_fault_of_its_own_joins_the_hang_of_another_one(journal, later):
    journal.open_or_update(hang(severity="warning"), NOW)
    for seconds in (61, 62, 63, 70):
        journal.open_or_update(later, NOW + seconds)
    (current,) = journal.active()
    assert (current.cause, current.ranks, current.severity) == ("compute_hang", (2, 0), "critical")
    assert [fault.cause for fault in current.evidence.joined] == [later.cause]


CULPRITS = st.sampled_from([(), (0,), (1,), (2,), (0, 1), (1, 2)])
CAUSES = st.sampled_from(["rank_exited", "rank_frozen", "compute_hang", "unknown"])
REPORTS = st.builds(
    lambda ranks, cause, severity: finding_of(*ranks, cause=cause, severity=severity),
    CULPRITS, CAUSES, st.sampled_from(["info", "warning", "critical"]),
)  # fmt: skip
OVERLAPS = st.one_of(REPORTS, st.builds(joined, REPORTS, REPORTS))


@given(st.lists(OVERLAPS, min_size=1, max_size=12))
def test_one_fault_is_one_alert_whatever_joins_it(tmp_path_factory, reports):
    journal = Journal(tmp_path_factory.mktemp("journal") / "findings.jsonl")
    severities, labels = [], set()
    for seconds, report in enumerate(reports):
        journal.open_or_update(report, NOW + seconds)
        (published,) = journal.published()
        labels.add((published.cause, published.ranks, published.hosts))
        severities.append(severity_order(published.severity))
    assert labels == {(reports[0].cause, reports[0].ranks, reports[0].hosts)}
    assert severities == sorted(severities)
