"""Tests of the report: tables of what was checked, and the reason for everything that was not."""

from dataclasses import replace

from bench.gpu_check.report import line, number, report, summary
from bench.gpu_check.result import FAILED, MEASURED, NOT_CHECKED, PASSED, Result
from tests.bench.gpu_check.machines import WITH_GPU, WITHOUT_GPU

STEPS = Result("steps in the box", PASSED, 200, "", "200 trained", setting="1 rank, NCCL")
COST = Result("added by a mark", MEASURED, 3.14159, "µs", note="95 %: 3.00 … 3.30")
MISSING = Result("DDP, watched", NOT_CHECKED, note="this machine has 1 GPU, and this needs 2", setting="2 ranks, NCCL")


def test_report_has_summary_machine_and_a_table_for_each_check():
    results = {"The trainer": [STEPS, MISSING], "Cost": [COST]}
    assert list(report(WITH_GPU, results, "2026-11-24", 192.0)) == [
        "2026-11-24, 3 min 12 s: 1 passed, 0 failed, 1 measured, 1 not checked.",
        "",
        "| machine |  |",
        "|---|---|",
        "| GPU 0 | NVIDIA H100 80GB HBM3, compute capability 9.0 |",
        "| driver | 580.159.04 |",
        "| torch, CUDA, NCCL | 2.11.0+cu130, 13.0, 2.28.3 |",
        "| Python, processors | 3.12.3, 2 |",
        "",
        "### The trainer",
        "",
        "| check | setting | verdict | figure | compared with | note |",
        "|---|---|---|---|---|---|",
        "| steps in the box | 1 rank, NCCL | passed | 200 | 200 trained |  |",
        "",
        "### Cost",
        "",
        "| check | setting | verdict | figure | compared with | note |",
        "|---|---|---|---|---|---|",
        "| added by a mark |  | measured | 3.142 µs |  | 95 %: 3.00 … 3.30 |",
        "",
        "### Not checked",
        "",
        "| not checked | settings | figure | reason |",
        "|---|---|---|---|",
        "| DDP, watched | 2 ranks, NCCL |  | this machine has 1 GPU, and this needs 2 |",
        "",
    ]


def test_check_of_which_nothing_could_run_has_no_table():
    lines = list(report(WITHOUT_GPU, {"DDP, watched": [MISSING]}, "2026-11-24", 1.0))
    assert "### DDP, watched" not in lines
    assert "| GPU | no GPU: torch 2.13.0+cpu is built without CUDA; nvidia-smi is not installed |" in lines
    assert "| driver | unknown: nvidia-smi is not installed |" in lines


def test_settings_that_lack_the_same_are_one_row():
    other = replace(MISSING, setting="2 ranks, gloo")
    rows = [row for row in report(WITH_GPU, {"DDP, watched": [MISSING, other]}, "", 0.0) if "this needs 2" in row]
    assert rows == ["| DDP, watched | 2 ranks, NCCL; 2 ranks, gloo |  | this machine has 1 GPU, and this needs 2 |"]


def test_text_with_bars_or_several_lines_stays_in_its_cell():
    odd = Result("a|b", FAILED, note="first\nsecond")
    (row,) = [row for row in report(WITH_GPU, {"odd": [odd]}, "", 0.0) if "first" in row]
    assert row == "| a\\|b |  | failed |  |  | first second |"


def test_line_of_progress_has_outcome_figure_and_note():
    assert line(STEPS) == "passed       steps in the box (1 rank, NCCL) 200; compared with 200 trained"
    assert line(MISSING).endswith("DDP, watched (2 ranks, NCCL); this machine has 1 GPU, and this needs 2")
    assert summary([STEPS, STEPS, COST]) == "2 passed, 0 failed, 1 measured, 0 not checked"


def test_numbers_have_four_digits_and_all_before_the_point():
    assert list(map(number, (0.00123456, 12.3456, 81559.4, "nccl"))) == ["0.001235", "12.35", "81,559", "nccl"]
