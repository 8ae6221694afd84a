"""Rows in, verdicts and figures out."""

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from zmon.drills.report import as_json, line, markdown, tables
from zmon.drills.score import NOTHING, DrillRow, Spread, alert_of, confusion, false_pages_per_hour, shortfalls, spread

ROW = DrillRow(
    "rank-killed", 0, 7, "ddp", 4, 0.02, proof="state", expected=("rank_exited",), rank=2, host="a",
    told="rank_exited", detector="stall", severity="critical", culprit_right=True, told_ranks=(2,), told_hosts=("a",),
    target_seconds=4.0, finding_seconds=0.5, page_seconds=2.0, paged=("ZmonStall",),
)  # fmt: skip
QUIET = DrillRow("pause", 0, 7, "ddp", 4, 0.02, quiet=True)


def test_right_cause_and_culprit_in_time_with_one_page_is_as_expected():
    assert ROW.verdict == "right"
    assert ROW.remarks == ()
    assert ROW.as_expected


def test_finding_within_twenty_steps_of_a_job_that_the_fault_slows_down_is_in_time():
    assert replace(ROW, finding_seconds=4.1, finding_steps=20).verdict == "right"


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({"told": None}, "missed"),
        ({"told": "rank_frozen"}, "wrong"),
        ({"culprit_right": False}, "wrong"),
        ({"finding_seconds": 4.1}, "late"),
        ({"finding_seconds": 4.1, "finding_steps": 21}, "late"),
        ({"skipped": "it takes root"}, "skipped"),
        ({"broken": "the job does not train"}, "broken"),
    ],
)
def test_anything_else_is_not(change, verdict):
    row = replace(ROW, **change)
    assert row.verdict == verdict
    assert not row.as_expected


@pytest.mark.parametrize(
    ("change", "remark"),
    [
        ({"paged": (), "page_seconds": None}, "no page"),
        ({"paged": ("ZmonLeaseOverdue",), "page_seconds": None}, "no page about it, but ZmonLeaseOverdue"),
        ({"page_seconds": None}, "no page about it, but ZmonStall"),  # of another detector
        ({"detector": "divergence"}, "no page about it, but ZmonStall"),
        ({"paged": ("ZmonStall", "ZmonLeaseOverdue")}, "2 alerts: ZmonStall, ZmonLeaseOverdue"),
        ({"page_seconds": 5.1}, "the page was late"),
        ({"page_seconds": 21.0}, "the page was late"),
        ({"beside": ("compute_straggler",)}, "compute_straggler was blamed beside it"),
        ({"lifted": True}, "it did not resolve in time"),
        ({"lifted": True, "resolved_seconds": 31.0}, "it did not resolve in time"),
        ({"evidence_missing": ("SIGKILL",)}, "the evidence lacks SIGKILL"),
        ({"lost": "the history"}, "the history"),
        ({"before": ("compute_straggler",)}, "compute_straggler was found before the fault"),
    ],
)
def test_right_with_a_flaw_is_not_as_expected(change, remark):
    row = replace(ROW, **change)
    assert row.verdict == "right"
    assert row.remarks == (remark,)
    assert not row.as_expected


def test_a_warning_beside_a_page_is_no_second_page():
    assert replace(ROW, warned=("ZmonFindingWarning",)).as_expected


def test_a_finding_that_warns_needs_its_warning():
    warned = replace(ROW, severity="warning", paged=(), warned=("ZmonFindingWarning",))
    assert warned.as_expected
    assert replace(warned, warned=(), page_seconds=None).remarks == ("no page",)


@pytest.mark.parametrize(
    ("detector", "severity", "alert"),
    [
        ("stall", "critical", "ZmonStall"),
        ("stall", "warning", "ZmonFindingWarning"),
        ("divergence", "critical", "ZmonFindingCritical"),
        ("straggler", "warning", "ZmonFindingWarning"),
    ],
)
def test_alert_that_tells_of_a_finding(detector, severity, alert):
    assert alert_of(detector, severity) == alert


def test_where_a_part_is_dead_several_alarms_may_ring_but_one_must():
    dead = replace(ROW, proof="watcher", expected=("ZmonLeaseOverdue",), told="ZmonLeaseOverdue", detector="")
    dead = replace(dead, page_seconds=None, paged=("ZmonLeaseOverdue",), warned=("ZmonHubDown",))
    assert dead.as_expected
    assert replace(dead, paged=(), warned=()).remarks == ("no page",)


def test_half_of_what_a_state_proves_is_found_sooner_than_the_limit_of_each():
    slow = replace(ROW, finding_seconds=3.0)
    assert slow.as_expected
    assert shortfalls([ROW, slow, slow]) == ("where a state proves it, half took longer than 2 s: p50 3.00 s",)
    assert shortfalls([ROW, ROW, slow]) == ()
    assert shortfalls([slow, slow]) == ()  # too few to tell
    assert shortfalls([replace(slow, proof="silence")] * 3) == ()


def test_remarks_say_who_it_was_where_another_is_blamed_and_what_rang_where_nobody_is():
    assert replace(ROW, told="rank_frozen").remarks == ("it was rank_exited, rank 2 on a",)
    assert replace(ROW, told=None, paged=("ZmonLeaseOverdue",)).remarks == ("paged ZmonLeaseOverdue",)


def test_quiet_drill_is_quiet_when_nobody_was_woken():
    assert QUIET.verdict == "quiet"
    assert QUIET.as_expected


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({"paged": ("ZmonStall",)}, "false page"),
        ({"critical": ("unknown",)}, "false page"),
        ({"warned": ("compute_straggler",)}, "false warning"),
    ],
)
def test_quiet_drill_that_is_not(change, verdict):
    assert replace(QUIET, **change).verdict == verdict


def test_spread_is_of_what_is_known():
    assert spread([None, 3.0, 1.0, 2.0, None]) == Spread(2.0, 3.0, 3.0, 3)
    assert spread([float(n) for n in range(1, 101)]) == Spread(50.0, 95.0, 100.0, 100)
    assert spread([None]) is None


def test_confusion_counts_what_was_told_and_what_was_not():
    rows = [ROW, ROW, replace(ROW, told="rank_frozen"), replace(ROW, told=None), QUIET, replace(ROW, skipped="root")]
    assert confusion(rows) == {
        ("rank_exited", "rank_exited"): 2,
        ("rank_exited", "rank_frozen"): 1,
        ("rank_exited", NOTHING): 1,
    }


def test_false_pages_are_told_by_the_hour():
    assert false_pages_per_hour([QUIET, replace(QUIET, paged=("ZmonStall",))], 1800) == 2.0
    assert false_pages_per_hour([replace(QUIET, critical=("unknown",))], 3600) == 1.0
    assert false_pages_per_hour([], 0) is None


def test_json_says_schema_verdicts_and_rows():
    told = as_json([ROW, QUIET], seed=7)
    assert (told["schema"], told["seed"], told["verdicts"]) == (1, 7, {"right": 1, "quiet": 1})
    assert [row["verdict"] for row in told["rows"]] == ["right", "quiet"]
    assert told["figures"]["finding → page"]["p50"] == 2.0
    assert told["confusion"] == [{"cause": "rank_exited", "told": "rank_exited", "count": 1}]


def test_a_line_and_a_table_can_be_made_of_every_row():
    skipped = replace(ROW, skipped="it takes root", told=None)
    assert line(skipped) == "rank-killed [ddp, 4 ranks, 20 ms] skipped (it takes root)"
    assert "0.50 s" in line(ROW)
    assert tables([ROW, QUIET, skipped])


def test_a_table_says_verdict_figures_and_remarks_in_a_narrow_terminal_too():
    late = replace(ROW, page_seconds=6.5, lifted=True, resolved_seconds=1.25)
    console = Console(width=80, file=StringIO())
    console.print(tables([late]))
    text = console.file.getvalue()
    assert all(word in text for word in ("right", "0.50 ≤ 4.0", "6.50", "1.25", "late"))


def test_markdown_has_a_line_for_each_drill_over_its_repeats():
    again = replace(ROW, repeat=1, finding_seconds=1.5, told_ranks=(1,), culprit_right=False)
    lines = markdown([ROW, again, QUIET]).splitlines()
    assert lines[2:4] == [
        "| rank-killed | 2 | 1 | 0.50 s, at most 1.50 | ≤ 4.0 | 2.00 s, at most 2.00 |  "
        "| 1 × wrong rank_exited rank 1 on a, it was rank_exited, rank 2 on a |",
        "| pause | 1 | 1 |  |  |  |  |  |",
    ]
    assert "| onset → finding, a state proves it | 0.50 | 0.50 | 0.50 | 1 |" in lines
