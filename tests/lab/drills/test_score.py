"""Tests of the results, remarks, figures and reports that follow from rows of drills."""

from io import StringIO

import pytest
from msgspec.structs import replace
from rich.console import Console

from lab.drills.figures import NOTHING, Spread, confusion, false_pages_per_hour, shortfalls, spread
from lab.drills.report import as_json, line, markdown, tables
from lab.drills.score import DrillRow
from lab.drills.targets import TARGETS
from tests.lab.drills.build import ROW
from zmon.detectors.stall import Stall

QUIET = DrillRow("pause", 0, 7, "ddp", 4, 0.02, quiet=True)


def test_right_finding_in_time_with_a_single_page_is_as_expected():
    assert ROW.result == "right"
    assert ROW.remarks == ()
    assert ROW.as_expected
    assert replace(ROW, finding_seconds=4.1, finding_steps=20).result == "right"
    assert replace(ROW, warned=("ZmonFindingWarning",)).as_expected


@pytest.mark.parametrize(
    ("change", "result"),
    [
        ({"reported_cause": None}, "missed"),
        ({"reported_cause": "rank_frozen"}, "wrong"),
        ({"culprit_right": False}, "wrong"),
        ({"finding_seconds": 4.1}, "late"),
        ({"finding_seconds": 4.1, "finding_steps": 21}, "late"),
        ({"skipped": "it needs root"}, "skipped"),
        ({"broken": "the job does not train"}, "broken"),
    ],
)
def test_result_other_than_right_is_not_as_expected(change, result):
    row = replace(ROW, **change)
    assert row.result == result
    assert not row.as_expected


@pytest.mark.parametrize(
    ("change", "remark"),
    [
        ({"paged": (), "page_seconds": None}, "no page"),
        ({"paged": ("ZmonLeaseOverdue",), "page_seconds": None}, "no page about the finding, but ZmonLeaseOverdue"),
        ({"page_seconds": None}, "no page about the finding, but ZmonStall"),  # the page is about another detector
        ({"detector": "divergence"}, "no page about the finding, but ZmonStall"),
        ({"paged": ("ZmonStall", "ZmonLeaseOverdue")}, "2 alerts: ZmonStall, ZmonLeaseOverdue"),
        ({"page_seconds": 5.1}, "the page was late"),
        ({"page_seconds": 21.0}, "the page was late"),
        ({"beside": ("compute_straggler",)}, "compute_straggler was reported as well"),
        ({"lifted": True}, "the finding did not resolve in time"),
        ({"lifted": True, "resolved_seconds": 31.0}, "the finding did not resolve in time"),
        ({"evidence_missing": ("SIGKILL",)}, "the evidence lacks SIGKILL"),
        ({"lost": "the history"}, "the history"),
        ({"before": ("compute_straggler",)}, "compute_straggler was reported before the fault"),
    ],
)
def test_right_result_with_a_remark_is_not_as_expected(change, remark):
    row = replace(ROW, **change)
    assert row.result == "right"
    assert row.remarks == (remark,)
    assert not row.as_expected


def test_finding_of_severity_warning_needs_a_warning_alert():
    warned = replace(ROW, severity="warning", paged=(), warned=("ZmonFindingWarning",))
    assert warned.as_expected
    assert replace(warned, warned=(), page_seconds=None).remarks == ("no page",)


def test_dead_part_of_zmon_needs_an_alert():
    dead = replace(ROW, proof="watcher", expected=("ZmonLeaseOverdue",), reported_cause="ZmonLeaseOverdue", detector="")
    dead = replace(dead, page_seconds=None, paged=("ZmonLeaseOverdue",), warned=("ZmonHubDown",))
    assert dead.as_expected
    assert replace(dead, paged=(), warned=()).remarks == ("no page",)


def test_shortfalls_report_a_slow_median_of_state_drills():
    slow = replace(ROW, finding_seconds=3.0)
    assert slow.as_expected
    assert shortfalls([ROW, slow, slow]) == (
        "findings that a state proves: the median time is 3.00 s, above the target of 2 s",
    )
    assert shortfalls([ROW, ROW, slow]) == ()
    assert shortfalls([slow, slow]) == ()  # too few
    assert shortfalls([replace(slow, proof="silence")] * 3) == ()


def test_target_of_a_critical_finding_is_the_time_of_the_detector():
    assert TARGETS.critical_floor_seconds == Stall().critical_seconds


def test_remarks_name_the_expected_culprit_or_the_pages():
    assert replace(ROW, reported_cause="rank_frozen").remarks == ("expected rank_exited, rank 2 on a",)
    assert replace(ROW, reported_cause=None, paged=("ZmonLeaseOverdue",)).remarks == ("paged ZmonLeaseOverdue",)


@pytest.mark.parametrize(
    ("change", "result"),
    [
        ({"paged": ("ZmonStall",)}, "false page"),
        ({"critical": ("unknown",)}, "false page"),
        ({"warned": ("compute_straggler",)}, "false warning"),
        ({}, "quiet"),
    ],
)
def test_quiet_drill_is_as_expected_without_an_alert_and_a_critical_finding(change, result):
    row = replace(QUIET, **change)
    assert (row.result, row.as_expected) == (result, result == "quiet")


def test_spread_ignores_unknown_values():
    assert spread([None, 3.0, 1.0, 2.0, None]) == Spread(2.0, 3.0, 3.0, 3)
    assert spread([float(n) for n in range(1, 101)]) == Spread(50.0, 95.0, 100.0, 100)
    assert spread([None]) is None


def test_confusion_counts_reported_causes_and_missed_faults():
    wrong, missed = (replace(ROW, reported_cause=cause) for cause in ("rank_frozen", None))
    assert confusion([ROW, ROW, wrong, missed, QUIET, replace(ROW, skipped="root")]) == {
        ("rank_exited", "rank_exited"): 2,
        ("rank_exited", "rank_frozen"): 1,
        ("rank_exited", NOTHING): 1,
    }


def test_false_pages_are_counted_per_hour():
    assert false_pages_per_hour([QUIET, replace(QUIET, paged=("ZmonStall",))], 1800) == 2.0
    assert false_pages_per_hour([replace(QUIET, critical=("unknown",))], 3600) == 1.0
    assert false_pages_per_hour([], 0) is None


def test_json_has_schema_results_and_rows():
    answer = as_json([ROW, QUIET], seed=7)
    assert (answer["schema"], answer["seed"], answer["verdicts"]) == (1, 7, {"right": 1, "quiet": 1})
    assert [row["verdict"] for row in answer["rows"]] == ["right", "quiet"]
    assert answer["rows"][0]["told"] == "rank_exited"  # a key in files of users, which does not change
    assert answer["figures"]["finding → page"]["p50"] == 2.0
    assert answer["confusion"] == [{"cause": "rank_exited", "told": "rank_exited", "count": 1}]


def test_line_shows_the_finding_time_or_the_reason_of_a_skip():
    skipped = replace(ROW, skipped="it needs root", reported_cause=None)
    assert line(skipped) == "rank-killed [ddp, 4 ranks, 20 ms] skipped (it needs root)"
    assert "0.50 s" in line(ROW)


def test_table_shows_all_figures_in_80_columns():
    late = replace(ROW, page_seconds=6.5, lifted=True, resolved_seconds=1.25)
    console = Console(width=80, file=StringIO())
    console.print(tables([late]))
    text = console.file.getvalue()
    assert all(word in text for word in ("right", "0.50 ≤ 4.0", "6.50", "1.25", "late"))


SILENT = replace(ROW, proof="silence", critical_seconds=20.9, critical_target_seconds=21.5)


@pytest.mark.parametrize(
    ("changes", "remarks"),
    [
        ({}, ()),
        ({"critical_seconds": 22.0}, ("it became critical late",)),
        ({"critical_seconds": None}, ("it did not become critical",)),
        ({"critical_seconds": None, "critical_target_seconds": None}, ()),  # a row of an older zmon
    ],
)
def test_row_shows_whether_what_silence_proves_became_critical_in_time(changes, remarks):
    assert replace(SILENT, **changes).remarks == remarks


def test_markdown_merges_the_repeats_of_a_drill_into_a_line():
    again = replace(ROW, repeat=1, finding_seconds=1.5, reported_ranks=(1,), culprit_right=False)
    assert "| 0.50 s | ≤ 4.0 | 20.90 s | ≤ 21.5 | 2.00 s |" in markdown([SILENT])
    lines = markdown([ROW, again, QUIET]).splitlines()
    assert lines[2:4] == [
        "| rank-killed | 2 | 1 | 0.50 s, at most 1.50 | ≤ 4.0 |  |  | 2.00 s, at most 2.00 |  "
        "| 1 × wrong rank_exited rank 1 on a, expected rank_exited, rank 2 on a |",
        "| pause | 1 | 1 |  |  |  |  |  |  |  |",
    ]
    assert "| onset → finding, a state proves it | 0.50 | 0.50 | 0.50 | 1 |" in lines
