"""Tests of the figures of the arms: the ratio, its interval, the phases, and recoveries that were given up."""

import pytest
from msgspec.structs import replace

from bench.recovery.figures import CALM, ArmRun, Recovery, lines, ratio_at

MOMENTS = {
    "finding": 0.6, "act": 1.0, "last death": 1.5, "relaunch": 2.0, "torch": 4.0, "ready": 6.0, "first step": 6.5,
    "regained": 12.0,
}  # fmt: skip
FROZEN = Recovery("frozen", 1, 420, 12.0, 600.0, 1, MOMENTS)
KILLED = Recovery("killed", 0, 900, 9.0, 600.0, 1, {"relaunch": 1.0, "regained": 9.0})
LOST = replace(FROZEN, lost_seconds=None, num_launches=0, moments={"finding": 0.6})
NO_FAULTS = ArmRun(CALM, 7200, 1800.0, 0.25, (), 0.5)
ACTS = ArmRun("acts", 7200, 1863.0, 0.25, (FROZEN, KILLED) * 3, 0.5)
NO_ACTS = ArmRun("no-acts", 7200, None, 0.25, (KILLED, LOST), 0.5)


def test_ratio_has_the_interval_of_student_over_the_faults():
    ratio, half = ratio_at(ACTS.recoveries)
    assert ratio == pytest.approx(1 + 10.5 / 300)
    assert half == pytest.approx(2.571 * 1.6432 / 6**0.5 / 300, rel=1e-3)


def test_recovery_that_did_not_end_counts_as_the_cap():
    assert ratio_at(NO_ACTS.recoveries) == (1 + (9 + 600) / 2 / 300, None)


def test_phases_sum_to_the_recovery():
    assert sum(FROZEN.phases.values()) == pytest.approx(12.0)
    assert FROZEN.phases["import of torch"] == pytest.approx(2.0)
    restarted = replace(KILLED, moments={"finding": 0.8, "last death": 0.2, "regained": 9.0})
    assert list(restarted.phases.values()) == pytest.approx([0.2, 8.8])
    assert KILLED.phases == {"last death → new ranks": 1.0, "lost steps again": 8.0}


def test_table_has_the_measured_ratio_and_the_one_at_five_minutes():
    line = next(line for line in lines([NO_FAULTS, ACTS], 300.0) if line.startswith("| acts"))
    assert line == "| acts | 6 | 300 s | 7,200 | 31.05 | 1.035 | 10.5 s ± 1.7 | 1.035 ± 0.006 |"


def test_arm_whose_rank_stays_frozen_has_a_lower_bound():
    line = next(line for line in lines([NO_FAULTS, NO_ACTS], 300.0) if line.startswith("| no-acts"))
    assert line == "| no-acts | 2 | 300 s | 7,200 | ≥ 60.45 (computed) |  | ≥ 304.5 s | ≥ 2.015 (overlapping) |"


def test_other_number_of_steps_is_not_compared():
    line = next(line for line in lines([NO_FAULTS, replace(ACTS, num_steps=10)], 300.0) if line.startswith("| acts"))
    assert "| 31.05 |  | 10.5 s" in line


def test_phases_have_a_line_for_each_arm_and_kind():
    text = "\n".join(lines([NO_FAULTS, ACTS, NO_ACTS], 300.0))
    assert text.count("| frozen |") == text.count("| killed |") == 2
    assert "| acts | frozen | 3 | 1 | 0.60 | 0.40 | 0.50 | 0.50 | 2.00 | 2.00 | 0.50 | 5.50 | 12.0 |" in text
