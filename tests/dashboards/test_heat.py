"""The image of a heat map: rows in order, colours of the legend, and unknown values transparent."""

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
WAITING, SELF_TIME = BY_KEY["waiting"], BY_KEY["own"]
DARK, LIGHT = (tuple(bytes.fromhex(colour[1:])) for colour in (CIVIDIS[0], CIVIDIS[-1]))


def values(**rows: list[float]) -> pd.DataFrame:
    """Return a table like that of History: one series after the other, all at the same times."""
    (length,) = {len(row) for row in rows.values()}
    times = pd.to_datetime(100 + 10 * np.arange(length), unit="s", utc=True)
    return pd.concat([pd.DataFrame({"time": times, "series": name, "value": row}) for name, row in rows.items()])


def pixels(table: pd.DataFrame) -> np.ndarray:
    (url,) = table["url"].dropna()
    return np.asarray(Image.open(BytesIO(b64decode(url.removeprefix("data:image/png;base64,")))))


@pytest.mark.parametrize("panel", [WAITING, SELF_TIME], ids=lambda panel: panel.key)
def test_it_can_be_drawn(panel):
    assert heat.specification(panel, 4, is_long=False)["description"] == panel.question


def test_a_row_is_light_where_the_panel_says_so():
    table = values(a=[0.0, 1.0], b=[1.0, 0.0])
    assert [tuple(pixel[:3]) for pixel in pixels(heat.table(SELF_TIME, table, 10, ()))[0]] == [DARK, LIGHT]
    assert [tuple(pixel[:3]) for pixel in pixels(heat.table(WAITING, table, 10, ()))[0]] == [LIGHT, DARK]


def test_an_unknown_value_has_no_colour():
    shown = pixels(heat.table(SELF_TIME, values(a=[np.nan, 0.5]), 10, ()))
    assert list(shown[0, :, 3]) == [0, 255]


def test_a_value_beyond_the_scale_has_its_last_colour():
    assert tuple(pixels(heat.table(SELF_TIME, values(a=[1.7]), 10, ()))[0, 0, :3]) == LIGHT


def test_a_culprit_comes_first_with_its_pixels():
    table = heat.table(SELF_TIME, values(a=[0.0], b=[1.0], c=[0.0]), 10, {"b"})
    assert list(table["series"].dropna()) == [f"b {heat.CULPRIT}", "a", "c"]
    assert [tuple(row[0, :3]) for row in pixels(table)] == [LIGHT, DARK, DARK]


def test_a_value_is_drawn_over_the_time_of_its_mean():
    table = heat.table(SELF_TIME, values(a=[0.1, 0.2, 0.3]), 10, ())
    seconds = table[["time", "until"]].map(lambda time: time.timestamp())
    assert seconds.to_numpy().tolist() == [[90.0, 120.0]] * 2


def test_a_row_has_the_mean_and_the_lightest_of_its_known_values():
    table = values(a=[0.2, np.nan, 0.4])
    high, low = (heat.table(panel, table, 10, ()).iloc[0] for panel in (SELF_TIME, WAITING))
    assert (high["mean"], high["value"], low["value"]) == pytest.approx((0.3, 0.4, 0.2))


def test_the_specification_does_not_contain_values():
    assert "data:image" not in str(heat.specification(SELF_TIME, 4, is_long=False))
