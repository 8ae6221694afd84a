"""Each size is held against the smallest, weakly or strongly as its samples are, and predicted from smaller ones."""

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from tests.scaling.test_fit import point
from zmon.cli.render.sweep import report
from zmon.offline.sweep import Size
from zmon.offline.sweep.judged import judged


def sure(ranks, samples, share=0.01):
    made = point(ranks, samples)
    return replace(made, half_width_seconds=share * made.seconds, ranks_per_host=4)


POINTS = [sure(4, 2048), sure(1, 512), sure(2, 512), sure(2, 1024), sure(4, 512)]


def said(rows, failed=None, width=100):
    console = Console(file=StringIO(), width=width)
    console.print(report(rows, failed or {}))
    return console.file.getvalue()


def test_rows_are_the_smallest_size_then_weak_then_strong():
    assert [(row.scaling, row.point.ranks) for row in judged(POINTS)] == [
        ("", 1), ("weak", 2), ("weak", 4), ("strong", 2), ("strong", 4)
    ]  # fmt: skip


def test_efficiency_is_of_the_rate_of_a_rank_with_the_chance_of_both():
    alone, two = judged(POINTS)[:2]
    assert alone.ratio is None
    assert two.ratio == pytest.approx(two.point.rate / alone.point.rate)
    assert two.half_width == pytest.approx(two.ratio * 0.01 * 2**0.5)


def test_what_a_step_loses_is_by_cause_and_sums_to_what_efficiency_lacks():
    row = judged(POINTS)[1]
    assert next(iter(row.lost)) in ("all_to_all", "all_reduce")
    assert sum(row.lost.values()) == pytest.approx(1 - row.ratio, abs=0.02)


def test_strong_scaling_loses_what_does_not_shrink_with_the_batch():
    assert "forward" in judged(POINTS)[-1].lost


def test_largest_size_is_predicted_from_smaller_ones_alone():
    by_size = {(row.point.ranks, row.point.samples): row for row in judged(POINTS)}
    assert by_size[4, 2048].predicted_seconds == pytest.approx(by_size[4, 2048].point.seconds, rel=1e-6)
    assert by_size[2, 512].predicted_seconds is None  # one rank exchanges nothing
    assert by_size[2, 512].unpredicted == ""
    slower = [replace(p, seconds=2 * p.seconds) if p.ranks == 4 else p for p in POINTS]
    assert judged(slower)[2].predicted_seconds == by_size[4, 2048].predicted_seconds


def test_size_that_scales_from_none_is_held_against_nothing():
    (row,) = [row for row in judged([sure(1, 512), sure(2, 5000)]) if row.point.ranks == 2]
    assert (row.scaling, row.ratio, row.lost) == ("", None, {})
    assert said([row, *judged([sure(1, 512)])]).splitlines()[1].split()[-1] == "unknown"


def test_person_reads_the_curve_what_eats_it_and_what_failed():
    text = said(judged(POINTS), {Size(8, 4096): "it ended with exit code 1; it said last: no such host"})
    first = text.splitlines()[1].split()
    assert first[:3] == ["–", "1", "512"]
    assert first[-1] == "1"
    assert "weak, 2 ranks: a step loses" in text
    assert "8 ranks, 4,096 samples a step: unknown, it ended with exit code 1" in text


def test_table_fits_a_terminal_of_80_columns():
    assert "…" not in said(judged(POINTS), width=80)


def test_ranks_that_take_turns_are_said():
    crowded = [replace(p, processors_per_host=2) for p in POINTS]
    assert "2 processors for up to 4 ranks" in said(judged(crowded))
    assert "processors" not in said(judged(POINTS))


def test_nothing_measured_is_no_empty_table():
    assert said([], {Size(1, None): "it said nothing"}).strip() == "1 rank: unknown, it said nothing"
