"""Tests of the image of a heat map: the order of its rows, its colours, and transparent pixels for unknown values."""

from base64 import b64decode
from io import BytesIO

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from dashboards import heat
from dashboards.colours import CIVIDIS
from dashboards.panels import ALL

BY_KEY = {panel.key: panel for panel in ALL}
WAITING, SELF_TIME = BY_KEY["waiting"], BY_KEY["own"]  # low values are light, and high values are light
DARK, LIGHT = (tuple(bytes.fromhex(colour[1:])) for colour in (CIVIDIS[0], CIVIDIS[-1]))


def series_table(**rows: list[float]) -> pd.DataFrame:
    """Return a table like that of History: one series after the other, all at the same times."""
    (length,) = {len(row) for row in rows.values()}
    times = pd.to_datetime(100 + 10 * np.arange(length), unit="s", utc=True)
    return pd.concat([pd.DataFrame({"time": times, "series": name, "value": row}) for name, row in rows.items()])


def pixels(table: pd.DataFrame) -> np.ndarray:
    (url,) = table["url"].dropna()
    return np.asarray(Image.open(BytesIO(b64decode(url.removeprefix("data:image/png;base64,")))))


@pytest.mark.parametrize("panel", [WAITING, SELF_TIME], ids=lambda panel: panel.key)
def test_heat_map_specification_describes_its_panel(panel):
    assert heat.specification(panel, 4, is_long=False)["description"] == panel.question


@pytest.mark.parametrize(
    ("panel", "colours"), [(SELF_TIME, [DARK, LIGHT, LIGHT]), (WAITING, [LIGHT, DARK, DARK])], ids=["own", "waiting"]
)
def test_light_end_of_colour_scale_depends_on_panel_and_values_beyond_it_have_its_last_colour(panel, colours):
    image = pixels(heat.table(panel, series_table(a=[0.0, 1.0, 1.7]), 10, ()))
    assert [tuple(pixel[:3]) for pixel in image[0]] == colours


def test_unknown_value_is_transparent():
    shown = pixels(heat.table(SELF_TIME, series_table(a=[np.nan, 0.5]), 10, ()))
    assert list(shown[0, :, 3]) == [0, 255]


def test_row_of_culprit_is_first_with_its_pixels():
    table = heat.table(SELF_TIME, series_table(a=[0.0], b=[1.0], c=[0.0]), 10, {"b"})
    assert list(table["series"].dropna()) == [f"b {heat.CULPRIT}", "a", "c"]
    assert [tuple(row[0, :3]) for row in pixels(table)] == [LIGHT, DARK, DARK]


def test_rows_of_all_hosts_come_after_culprits():
    names = {f"{heat.ALL_HOSTS}median": [0.5], "node-1": [1.0], "a-node": [0.0]}
    table = heat.table(SELF_TIME, series_table(**names), 10, {"node-1"})
    assert list(table["series"].dropna()) == [f"node-1 {heat.CULPRIT}", f"{heat.ALL_HOSTS}median", "a-node"]


def test_image_begins_one_interval_before_first_point():
    table = heat.table(SELF_TIME, series_table(a=[0.1, 0.2, 0.3]), 10, ())
    seconds = table[["time", "until"]].map(lambda time: time.timestamp())
    assert seconds.to_numpy().tolist() == [[90.0, 120.0]] * 2


def test_row_has_mean_and_lightest_of_its_known_values():
    table = series_table(a=[0.2, np.nan, 0.4])
    self_time, waiting = (heat.table(panel, table, 10, ()).iloc[0] for panel in (SELF_TIME, WAITING))
    assert (self_time["mean"], self_time["value"], waiting["value"]) == pytest.approx((0.3, 0.4, 0.2))


def test_heat_map_specification_contains_no_image():
    assert "data:image" not in str(heat.specification(SELF_TIME, 4, is_long=False))


@pytest.mark.parametrize(
    ("num_series", "leaves_out"),
    [pytest.param(36, False, id="labels of all rows have room"), pytest.param(37, True, id="one row too many")],
)
def test_labels_of_rows_are_left_out_only_if_they_have_no_room(num_series, leaves_out):
    _, rows = heat.specification(WAITING, num_series, is_long=False)["layer"]
    assert rows["encoding"]["y"]["axis"]["labelOverlap"] is leaves_out
