"""Tests of suppression: which findings another finding hides, and which open ones a stall holds open."""

import pytest

from tests.build import finding
from zmon.detectors import ALL
from zmon.detectors.slow import JITTER_CAUSES
from zmon.detectors.suppression import TABLE, suppress

SKEW_CAUSES = ("lookup_skew", "all_to_all_skew", "stage_imbalance")


def report(detector, severity="warning", cause="rank_frozen"):
    """Return what a detector reports, by its name: one finding."""
    return {detector: (finding(detector=detector, severity=severity, cause=cause),)}


STALL, STRAGGLER, EFFICIENCY = report("stall", "critical"), report("straggler"), report("efficiency")
CASES = [  # what detectors report, whose findings remain, and whose are held open
    ("unrelated findings", [STRAGGLER, report("coverage"), report("hardware")], "straggler coverage hardware", ""),
    *(("a culprit and a slowdown", [report(name), report("slowdown")], name, "")
      for name in ("straggler", "imbalance")),
    ("an info", [report("straggler", "info"), report("slowdown")], "straggler slowdown", ""),
    *(("a warning and a low efficiency", [report(name), EFFICIENCY], name, "")
      for name in ("straggler", "imbalance", "slowdown", "divergence", "coverage", "hardware")),
    *(("an info and a low efficiency", [report(name, "info"), EFFICIENCY], f"{name} efficiency", "")
      for name in ("straggler", "imbalance", "slowdown", "divergence", "coverage", "hardware")),
    *(("a stall, which step detectors cannot see past", [STALL, report(name)], "stall", name)
      for name in ("straggler", "imbalance", "slowdown", "efficiency", "input_bound")),
    *(("a stall and what needs no steps", [STALL, report(name)], f"stall {name}", "")
      for name in ("divergence", "coverage", "hardware")),
    ("a stall alone: other faults may be over, because the ranks are gone", [STALL], "stall", ""),
    ("a stall and a slowdown that a straggler explains", [STALL, STRAGGLER, report("slowdown")], "stall", "straggler"),
    *(("a straggler and a loss to a rank that changes", [STRAGGLER, report("imbalance", cause=cause)], "straggler", "")
      for cause in JITTER_CAUSES),
    *(("a straggler of severity info and a loss", [report("straggler", "info"), report("imbalance", cause=cause)],
       "straggler imbalance", "") for cause in JITTER_CAUSES),
    *(("a straggler and work that is split unevenly", [STRAGGLER, report("imbalance", cause=cause)],
       "straggler imbalance", "") for cause in SKEW_CAUSES),
    *(("a loss to a rank that changes and a slowdown for another reason",
       [report("imbalance", cause=cause), report("slowdown", cause="network")], "imbalance slowdown", "")
      for cause in JITTER_CAUSES),
    ("slow loaders and a slowdown of the input",
     [report("imbalance", cause="input_jitter"), report("slowdown", cause="input")], "imbalance", ""),
    ("slow loaders of severity info and a slowdown of the input",
     [report("imbalance", "info", "input_jitter"), report("slowdown", cause="input")], "imbalance slowdown", ""),
    *(("uneven ranks and a low efficiency", [report("imbalance", cause=cause), EFFICIENCY], "imbalance", "")
      for cause in (*JITTER_CAUSES, "stage_imbalance")),
]  # fmt: skip


@pytest.mark.parametrize(("reports", "remaining", "held_open"), [pytest.param(*row, id=name) for name, *row in CASES])
def test_finding_that_explains_others_hides_them(reports, remaining, held_open):
    findings_by_detector = {detector.name: () for detector in ALL}
    for report_ in reports:
        findings_by_detector |= report_
    left = suppress(findings_by_detector)
    assert {name for name, findings in left.findings.items() if findings} == set(remaining.split())
    assert left.held_open == set(held_open.split())


def test_table_names_only_existing_detectors():
    names = {detector.name for detector in ALL}
    assert {name for row in TABLE for name in (row.by, *row.silenced)} <= names


def test_only_the_suppressed_findings_of_a_detector_are_left_out():
    both = tuple(finding(detector="imbalance", severity="warning", cause=c) for c in ("lookup_skew", JITTER_CAUSES[0]))
    left = suppress({**STRAGGLER, "imbalance": both})
    assert [each.cause for each in left.findings["imbalance"]] == ["lookup_skew"]
    assert left.resolved == {"imbalance"}
