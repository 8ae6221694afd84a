"""Tests of the results of a sweep. Sizes are compared with the smallest size and predicted from smaller sizes."""

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from lab.cli.scaling_table import report
from lab.sweep import Size
from lab.sweep.results import size_results
from tests.scaling.test_fit import point


def measured_point(ranks, samples):
    """Return a point whose half width is 1 % of its step time."""
    exact = point(ranks, samples)
    return replace(exact, half_width_seconds=0.01 * exact.seconds, ranks_per_host=4)


POINTS = [measured_point(ranks, samples) for ranks, samples in ((4, 2048), (1, 512), (2, 512), (2, 1024), (4, 512))]


def render(rows, failed=None, width=100):
    console = Console(file=StringIO(), width=width)
    console.print(report(rows, failed or {}))
    return console.file.getvalue()


def test_results_list_the_smallest_size_then_weak_then_strong():
    assert [(row.scaling, row.point.ranks) for row in size_results(POINTS)] == [
        ("", 1), ("weak", 2), ("weak", 4), ("strong", 2), ("strong", 4)
    ]  # fmt: skip


def test_efficiency_is_the_ratio_of_rates_with_combined_error():
    alone, two = size_results(POINTS)[:2]
    assert alone.ratio is None
    assert two.ratio == pytest.approx(two.point.rate / alone.point.rate)
    assert two.half_width == pytest.approx(two.ratio * 0.01 * 2**0.5)  # two independent errors of 1 %


def test_losses_by_category_sum_to_the_loss_of_efficiency():
    row = size_results(POINTS)[1]
    assert next(iter(row.lost)) in ("all_to_all", "all_reduce")
    assert sum(row.lost.values()) == pytest.approx(1 - row.ratio, abs=0.02)
    assert "forward" in size_results(POINTS)[-1].lost  # strong scaling


def test_size_is_predicted_from_smaller_sizes_only():
    by_size = {(row.point.ranks, row.point.samples): row for row in size_results(POINTS)}
    assert by_size[4, 2048].predicted_seconds == pytest.approx(by_size[4, 2048].point.seconds, rel=1e-6)
    assert by_size[2, 512].predicted_seconds is None  # a single rank runs no collectives
    assert by_size[2, 512].unpredicted == ""
    slower = [replace(p, seconds=2 * p.seconds) if p.ranks == 4 else p for p in POINTS]
    assert size_results(slower)[2].predicted_seconds == by_size[4, 2048].predicted_seconds


def test_size_without_a_reference_has_no_efficiency():
    (row,) = [row for row in size_results([measured_point(1, 512), measured_point(2, 5000)]) if row.point.ranks == 2]
    assert (row.scaling, row.ratio, row.lost) == ("", None, {})
    assert render([row, *size_results([measured_point(1, 512)])]).splitlines()[1].split()[-1] == "unknown"


def test_output_has_the_curve_the_losses_and_the_failed_sizes():
    text = render(size_results(POINTS), {Size(8, 4096): "the command ended with exit code 1; last line: no such host"})
    smallest = text.splitlines()[1].split()
    assert smallest[:3] == ["–", "1", "512"]
    assert smallest[-1] == "1"
    assert "weak, 2 ranks: a step loses" in text
    assert "8 ranks, 4,096 samples per step: unknown, the command ended with exit code 1" in text
    assert "…" not in render(size_results(POINTS), width=80)
    assert render([], {Size(1, None): "it printed nothing"}).strip() == "1 rank: unknown, it printed nothing"


def test_output_reports_ranks_that_share_processors():
    crowded = [replace(p, processors_per_host=2) for p in POINTS]
    assert "2 processors for up to 4 ranks" in render(size_results(crowded))
    assert "processors" not in render(size_results(POINTS))
