"""Tests of the charts and of the scaling curve: layers, colours, gaps, points, marks and labels."""

import math

import pandas as pd
import pytest

from dashboards import charts, curves
from dashboards.marks import Mark
from dashboards.panels import ALL, VIEWS
from tests.dashboards.world import SCALING

NAN = float("nan")


def panel_of(key):
    """Return the panel of the page of a job with this key."""
    (panel,) = [panel for panel in VIEWS["job"] if panel.key == key]
    return panel


def specification(panel, names=("a",), kinds=frozenset()):
    """Return the specification of a chart with its span and these kinds of marks, without culprits."""
    return charts.specification(panel, [*names], {"span", *kinds}, culprits=(), is_long=False)


@pytest.mark.parametrize("panel", [panel for panel in ALL if panel.shape != "rows"], ids=lambda panel: panel.key)
def test_chart_specification_describes_its_panel(panel):
    assert specification(panel)["description"] == panel.question


def test_chart_with_more_legend_rows_is_higher():
    few, many = (specification(panel_of("where"), names)["height"] for names in ("abc", "abcdefgh"))
    assert many > few


def frame(values: list[float]) -> pd.DataFrame:
    """Return the values of one series, one every ten seconds from 0 on."""
    times = pd.to_datetime([10 * index for index in range(len(values))], unit="s", utc=True)
    return pd.DataFrame({"time": times, "series": "x", "value": values})


def test_marks_and_lines_are_separate_tables():
    tables = charts.tables(frame([1.0, 2.0]), (Mark("finding", "rank_frozen", 10, 20, "critical"),), 0, 60)
    assert tables["marks"].column("kind").to_pylist() == ["finding", "span", "span"]
    assert tables["marks"].column("until")[0].as_py() == 20_000
    assert tables["lines"].to_pylist()[1] == {"time": 10_000, "series": "x", "value": 2.0}


@pytest.mark.parametrize(("kind", "layers"), [("finding", 3), ("activity", 2), ("moment", 1), ("alone", 1)])
def test_chart_has_layers_only_for_kinds_of_marks_in_its_data(kind, layers):
    panel = panel_of("step_time")
    without_kind, with_kind = specification(panel), specification(panel, kinds={kind})
    assert len(with_kind["layer"]) - len(without_kind["layer"]) == layers


@pytest.mark.parametrize(("values", "times"), [([1.0] * 5, [30_000, 40_000]), ([], [])])
def test_chart_begins_and_ends_with_its_span(values, times):
    tables = charts.tables(frame(values), (), 30, 60)
    assert tables["lines"].column("time").to_pylist() == times
    assert tables["marks"].column("time").to_pylist() == [30_000, 60_000]


@pytest.mark.parametrize(
    ("values", "alone"),
    [([1, NAN, NAN], [0]), ([NAN, 1, NAN, 1], [1, 3]), ([1, 1, NAN, 1], [3]), ([1, 1, NAN, 1, 1], [])],
)
def test_value_without_neighbours_is_drawn_as_point(values, alone):
    marks = charts.tables(frame(values), (), 0, 60)["marks"].to_pylist()
    assert [row["time"] / 10_000 for row in marks if row["kind"] == "alone"] == alone


def test_stacked_areas_draw_no_points():
    panel = panel_of("where")
    assert specification(panel, kinds={"alone"})["layer"] == specification(panel)["layer"]


def test_single_value_within_span_is_drawn_as_point():
    tables = charts.tables(frame([1, 2]), (), 5, 60)
    assert [row["value"] for row in tables["marks"].to_pylist() if row["kind"] == "alone"] == [2]
    assert tables["lines"].num_rows == 1


def test_line_is_interrupted_at_gap():
    lines = charts.tables(frame([1, NAN, NAN, 1]), (), 0, 60)["lines"].to_pylist()
    assert [row["time"] for row in lines] == [0, 10_000, 30_000]
    assert math.isnan(lines[1]["value"])


def test_scaling_curve_has_recorded_current_predicted_and_ideal_points():
    table = curves.samples(SCALING, "")
    assert set(table["kind"]) == {"recorded", "now", "predicted", "ideal"}
    per_rank = SCALING.points[0].samples_per_second  # of the smallest size, which has one rank
    assert table[table["kind"] == "ideal"]["samples_per_second"].tolist() == [per_rank, 2 * per_rank]


def test_scaling_curve_omits_size_without_prediction():
    assert set(curves.parts(SCALING)["ranks"]) == {2}
    assert 16 not in set(curves.samples(SCALING, "")["ranks"])


def test_label_of_finding_that_would_overlap_is_omitted():
    begins = (("rank_frozen", 0), ("unknown", 3), ("unknown", 30))
    marks = tuple(Mark("finding", cause, begin, begin + 5) for cause, begin in begins)
    rows = charts.tables(frame([1, 2]), marks, 0, 60)["marks"].to_pylist()
    assert [row["text"] for row in rows if row["kind"] == "finding"] == ["rank_frozen", "", "cause unknown"]
