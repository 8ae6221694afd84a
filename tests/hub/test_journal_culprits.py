"""Tests of the culprits in the journal: they do not flicker, and victims do not become culprits."""

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.build import NOW, finding, opened_id, rank_state, words
from zmon.detectors.new_finding import rank_row
from zmon.hub.journal import Journal
from zmon.job.merging import joined
from zmon.schema.evidence import Evidence
from zmon.schema.gathered import FlightRow
from zmon.schema.names import severity_order
from zmon.schema.pause import Silence


def num_lines(path):
    """Return the number of lines of a file."""
    return len(path.read_text().splitlines())


def finding_of(*ranks, cause="compute_hang", **changes):
    """Return a finding about these ranks of node-a."""
    return finding(ranks=ranks, hosts=("node-a",) * len(ranks), cause=cause, **changes)


def test_flickering_culprits_write_no_line(journal, journal_path):
    journal.open_or_update(finding_of(2), NOW)
    for number in range(400):
        journal.open_or_update(finding_of(3 + number % 2), NOW + 1 + number / 4)
    assert journal.active()[0].ranks == (2,)
    assert num_lines(journal_path) == 1


def pair(*hosts, cause="connection_lost", summary="between rank 0 and rank 5"):
    """Return a finding about the network between hosts."""
    return finding(cause=cause, ranks=(), hosts=hosts, summary=summary)


PAIR, NO_PAIR = pair("node-0", "node-2"), pair(summary="not known between which ranks")
CUT, OTHER_CUT = (pair(host, cause="network_stall") for host in ("node-0", "node-1"))
NOBODY, RANK_2, RANK_3 = finding_of(cause="unknown"), finding_of(2), finding_of(3)
WARNING, CRITICAL = finding_of(2, severity="warning"), finding_of(3, severity="critical")
INPUT_STALL, EXITED = finding_of(2, cause="input_stall"), finding_of(2, cause="rank_exited")
PASSES = {  # the reports with their times in seconds, and the report whose culprits are published
    # The samples that prove a lost connection are kept for a minute.
    "hosts of a lost connection stay once the samples that proved them are gone":
        ([(0, PAIR), *((seconds, NO_PAIR) for seconds in range(60, 80))], PAIR),
    "other hosts are not published at once": ([(0, CUT), (1, OTHER_CUT), (2, OTHER_CUT)], CUT),
    "other ranks are not published at once": ([(0, RANK_2), (1, RANK_3), (2, RANK_3), (3.9, RANK_3)], RANK_2),
    "ranks are not published at once when a link heals": ([(0, CUT), (1, RANK_2), (2, RANK_2)], CUT),
    "other hosts are published after 3 s": ([(0, CUT), (1, OTHER_CUT), (2, OTHER_CUT), (4, OTHER_CUT)], OTHER_CUT),
    "other ranks are published after 3 s": ([(0, RANK_2), (1, RANK_3), (2, RANK_3), (4, RANK_3)], RANK_3),
    "hold time restarts after a gap": ([(0, RANK_2), (1, RANK_3), (101, RANK_3), (102, RANK_3)], RANK_2),
    # A rank whose hang has ended loads its next batch before the step is over.
    "kind of a hang stays while its rank goes through other phases":
        ([(0, RANK_2), (1, INPUT_STALL), (2, RANK_2), (3, INPUT_STALL), (5, INPUT_STALL)], RANK_2),
    "other kind of a hang is published after 3 s": ([(0, RANK_2), (3, INPUT_STALL), (6, INPUT_STALL)], INPUT_STALL),
    "exit of a rank that hung is published at once": ([(0, RANK_2), (1, EXITED)], EXITED),
    "first culprits are published at once": ([(0, NOBODY), (1, RANK_2)], RANK_2),
    "higher severity is published at once": ([(0, WARNING), (1, CRITICAL)], CRITICAL),
}  # fmt: skip


@pytest.mark.parametrize(("reports", "published"), PASSES.values(), ids=PASSES)
def test_published_culprits_do_not_follow_every_report(journal, reports, published):
    for seconds, report in reports:
        journal.open_or_update(report, NOW + seconds)
    (current,) = journal.active()
    assert (current.cause, current.ranks, current.hosts, current.severity, current.summary) == (
        published.cause, published.ranks, published.hosts, published.severity, published.summary,
    )  # fmt: skip


# -- victims -----------------------------------------------------------------------------------------------


def row(rank, pid, op="all_reduce", **changes):
    """Return the row of a rank in the evidence; it waits in `op`."""
    return msgspec.structs.replace(rank_row(rank_state(rank, pid=pid)), op=op, **changes)


ROWS = row(0, 10), row(1, 11), row(2, 12, None), row(3, 13, None)


def hang(**changes):
    """Return the finding that rank 2 computes for ever and the others wait for it."""
    flights = {"3": FlightRow(pending=(), num_pending=1), "1": FlightRow(error="its agent is silent")}
    return finding_of(2, evidence=Evidence(ranks=ROWS, in_flight=flights), **changes)


def exited(*ranks, pids=(10, 11, 12, 13), status=None, **changes):
    """Return the finding that these ranks exited; its rows are those of the hang."""
    rows = [msgspec.structs.replace(row_, pid=pid) for row_, pid in zip(ROWS, pids, strict=True)]
    for rank in ranks:
        rows[rank] = msgspec.structs.replace(rows[rank], alive=False, exit_status=status)
    changes = {"summary": "rank 0 exited: signal SIGABRT", **changes}
    return finding_of(*ranks, cause="rank_exited", evidence=Evidence(ranks=tuple(rows)), **changes)


def after_exits(journal, current):
    """Report this finding for long enough; return the active one."""
    for seconds in (600, 602, 604):
        journal.open_or_update(current, NOW + seconds)
    return journal.active()[0]


VICTIM_0 = "; victims: rank 0 exited: signal SIGABRT"


@pytest.mark.parametrize("victims", [(0,), (0, 1, 3)])
def test_victims_that_a_watchdog_aborts_do_not_replace_the_culprit(journal, journal_path, victims):
    journal.open_or_update(hang(severity="warning", summary="rank 2 hangs"), NOW)
    current = after_exits(journal, exited(*victims))
    assert (current.cause, current.ranks, current.severity) == ("compute_hang", (2,), "critical")
    assert current.summary == f"rank 2 hangs{VICTIM_0}"
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


SILENCE = Silence(
    seconds=2.0, critical_seconds=20.0, places=(), healed_seconds=None, reason="it becomes critical after 20 s"
)  # fmt: skip
OUTLOOK = {"severity": "warning", "summary": f"rank 2 hangs; {SILENCE.reason}"}


def patient(published):
    """Return the finding as it is while only silence shows the stall."""
    return replace(published, **OUTLOOK, evidence=msgspec.structs.replace(published.evidence, silence=SILENCE))


@pytest.mark.parametrize(
    ("first", "second", "victims"),
    [
        pytest.param(patient(hang()), exited(0, severity="critical"), VICTIM_0, id="report of victims"),
        pytest.param(patient(finding_of(2)), finding_of(severity="critical"), "", id="critical report of no culprit"),
        # The silence is critical; a rank that changed its phase starts the time again.
        pytest.param(finding_of(2, severity="critical", summary="rank 2 hangs"), patient(finding_of(2)), "",
                     id="later warning"),
    ],
)  # fmt: skip
def test_critical_finding_has_no_time_at_which_it_becomes_critical(journal, first, second, victims):
    journal.open_or_update(first, NOW)
    journal.open_or_update(second, NOW + 1)
    (current,) = journal.active()
    assert (current.ranks, current.severity, current.summary) == ((2,), "critical", f"rank 2 hangs{victims}")


NOBODY_WAITS = finding_of(2, evidence=Evidence(ranks=(row(0, 10, None), row(2, 12, None))))


@pytest.mark.parametrize(
    ("hang", "exits"),
    [
        pytest.param(hang(), exited(2), id="the culprit itself"),
        pytest.param(hang(), exited(0, 2), id="with the culprit"),
        pytest.param(hang(), exited(0, pids=(90, 11, 12, 13)), id="another launch of it"),
        pytest.param(NOBODY_WAITS, exited(0), id="a rank that had not waited"),
    ],
)
def test_rank_that_exits_by_itself_is_the_culprit(journal, hang, exits):
    journal.open_or_update(hang, NOW)
    current = after_exits(journal, exits)
    assert (current.cause, current.ranks) == ("rank_exited", exits.ranks)


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


RANK_0_STOPPED = (row(0, 10, process_state="T"), *ROWS[1:])
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
