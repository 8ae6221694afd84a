"""Tests of charts in plain HTML: lines, stacked areas, gaps, axes and legend."""

import re
from urllib.parse import unquote

import pandas as pd
import pytest

from dashboards.colours import category_colour
from dashboards.panels.cluster import GPU_TIME, HOSTS_BUSY
from dashboards.views import plain_chart

BEGIN = 1_795_262_400  # 21 Nov 2026 12:00:00 UTC
NAN = float("nan")


def html(panel, **series: list[float]) -> str:
    """Return the chart of series with a value each minute."""
    (length,) = {len(values) for values in series.values()}
    times = pd.to_datetime([BEGIN + 60 * index for index in range(length)], unit="s", utc=True)
    table = pd.DataFrame({"time": times, **series}).melt(id_vars="time", var_name="series", value_name="value")
    return plain_chart.html(panel, table, BEGIN, BEGIN + 60 * (length - 1))


def paths(page: str) -> dict[str, str]:
    """Return the path of each series, by the colours of the legend."""
    picture = unquote(re.findall(r'src="data:image/svg\+xml,([^"]*)"', page)[0])
    by_colour = dict(re.findall(r'<li style="--tint:(#\w+)">([^<]*) <b>', page))
    return {by_colour[colour]: path for path, colour in re.findall(r'<path d="([^"]*)" .*?="(#\w+)"', picture)}


def test_lines_are_broken_where_a_value_is_unknown():
    page = html(HOSTS_BUSY, **{"busiest host": [1.0, 0.5, NAN, 0.25, 0.0]})
    assert paths(page) == {"busiest host": "M0.0,0.00 250.0,50.00M750.0,75.00 1000.0,100.00"}


def test_areas_are_stacked_from_the_ideal_upwards():
    page = html(GPU_TIME, all_reduce=[NAN, 0.5], forward=[1.0, 0.5])
    assert paths(page) == {
        "forward": "M0.0,0.00 1000.0,50.00L1000.0,100.00 0.0,100.00Z",
        "all_reduce": "M0.0,0.00 1000.0,0.00L1000.0,50.00 0.0,0.00Z",
    }


def test_area_has_a_gap_where_all_categories_are_unknown():
    page = html(GPU_TIME, forward=[1.0, 1.0, NAN, 1.0, 1.0])
    assert paths(page)["forward"].count("Z") == 2


def test_legend_has_the_colour_and_the_last_known_value_of_each_series():
    page = html(GPU_TIME, forward=[1.0, 0.75, NAN], stall=[0.0, 0.25, NAN])
    assert re.findall(r'<li style="--tint:(#\w+)">(\w+) <b>([^<]*)</b>', page) == [
        (category_colour("forward"), "forward", "75.0 %"),
        (category_colour("stall"), "stall", "25.0 %"),
    ]


@pytest.mark.parametrize("panel", [GPU_TIME, HOSTS_BUSY], ids=lambda panel: panel.key)
def test_axes_have_shares_and_times(panel):
    page = html(panel, forward=[0.5] * 61)
    assert re.findall(r">([\d.]+ %)</i>", page) == ["0.0 %", "50.0 %", "100.0 %"]
    assert re.findall(r"<i>([^<]*)</i>", page) == ["12:00", "12:15", "12:30", "12:45", "13:00 (UTC)"]
    assert f'data-testid="zmon-{panel.key}"' in page


def test_names_are_escaped():
    assert "<b>x" not in html(HOSTS_BUSY, **{"<b>x": [0.5, 0.5]})
