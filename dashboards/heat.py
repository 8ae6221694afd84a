"""Heat maps over time, drawn as one picture: with a rectangle for each of 128 x 60 values a browser needs a second.

The picture has a pixel for each value, in the colours of the legend. It is stored in the table of the chart, so that
the specification stays the same. An invisible row for each series above it has its tooltip.
"""

from base64 import b64encode
from collections.abc import Container
from io import BytesIO

import numpy as np
import pandas as pd
from PIL import Image

from dashboards.charts import TIME_AXIS, axis, number
from dashboards.colours import CIVIDIS, GREY
from dashboards.history import grid
from dashboards.panels import Panel

CULPRIT = "◀"
MOST_ROW_PIXELS = 26
MAP_PIXELS, AROUND_PIXELS = 420, 105  # the limit for all rows, and the height of axis and legend
_STOPS = np.array([[int(colour[place : place + 2], 16) for place in (1, 3, 5)] for colour in CIVIDIS])


def table(panel: Panel, values: pd.DataFrame, resolution: int, culprits: Container[str]) -> pd.DataFrame:
    """Return a row for each series of a FRAME, and one for the picture. Culprits come first and have a sign.

    A value is drawn over the time of which it is the mean: the `resolution` seconds before it.
    """
    names, columns = grid(values)
    order = sorted(range(len(names)), key=lambda place: names[place] not in culprits)
    columns = columns[order]
    lightest = np.fmin if panel.light_is == "low" else np.fmax
    rows = pd.DataFrame(
        {
            "kind": "row",
            "place": range(len(order)),
            "series": [f"{names[place]} {CULPRIT}" if names[place] in culprits else names[place] for place in order],
            "value": lightest.reduce(columns, axis=1),
            "mean": np.nanmean(columns, axis=1),
        }
    )
    url = f"data:image/png;base64,{b64encode(picture(columns, is_reversed=panel.light_is == 'low')).decode()}"
    both = pd.concat([rows, pd.DataFrame({"kind": ["picture"], "url": [url]})], ignore_index=True)
    begin, end = values["time"].iloc[0] - pd.Timedelta(seconds=resolution), values["time"].iloc[-1]
    return both.assign(time=begin, until=end)


def picture(values: np.ndarray, *, is_reversed: bool) -> bytes:
    """Return a PNG with a pixel for each value from 0 to 1. Unknown values are transparent."""
    shares = 1 - values if is_reversed else values
    places = np.clip(np.nan_to_num(shares), 0, 1) * (len(_STOPS) - 1)
    channels = [np.interp(places, np.arange(len(_STOPS)), _STOPS[:, channel]) for channel in range(3)]
    pixels = np.stack([*channels, np.where(np.isnan(values), 0, 255)], axis=-1)
    file = BytesIO()
    Image.fromarray(pixels.round().astype(np.uint8)).save(file, "PNG")
    return file.getvalue()


def specification(panel: Panel, height: int, *, is_long: bool) -> dict[str, object]:
    """Return the specification for Vega-Lite, for a table of `height` series."""
    across = {"x": {"field": "time", **TIME_AXIS, "axis": axis(is_long)}, "x2": {"field": "until"}}
    colours = CIVIDIS[::-1] if panel.light_is == "low" else CIVIDIS
    lightest = {**number(panel), "title": "lightest"}
    return {
        "description": panel.question,
        "height": min(MAP_PIXELS, MOST_ROW_PIXELS * height) + AROUND_PIXELS,
        "layer": [
            {
                "transform": [{"filter": "datum.kind == 'picture'"}],
                "mark": {"type": "image", "aspect": False, "smooth": False},
                "encoding": {**across, "y": {"value": 0}, "y2": {"value": "height"}, "url": {"field": "url"}},
            },
            {
                "transform": [{"filter": "datum.kind == 'row'"}],
                "mark": {"type": "rect", "opacity": 0},
                "encoding": {
                    **across,
                    "y": {
                        "field": "series",
                        "type": "nominal",
                        "sort": {"field": "place", "op": "min"},  # otherwise a row that moves keeps its old label
                        "title": None,
                        "axis": {"labelOverlap": True, "ticks": False, "domain": False},
                    },
                    "color": {
                        "field": "value",
                        "type": "quantitative",
                        "scale": {"domain": [0, 1], "range": colours, "interpolate": "rgb"},
                        "legend": {"title": None, "format": "~%", "orient": "bottom", "gradientThickness": 8},
                    },
                    "tooltip": [
                        {"field": "series", "type": "nominal", "title": "row"},
                        {**lightest, "field": "mean", "title": "mean"},
                        lightest,
                    ],
                },
            },
        ],
        "config": {"view": {"fill": GREY, "fillOpacity": 0.25}},
    }
