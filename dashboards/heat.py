"""Heat maps over time. A map is drawn as one image, because a browser needs a second to draw 128 x 60 rectangles.

The image has a pixel for each value, in the colours of the legend. It is stored in the table of the chart, so that the
specification stays the same. An invisible rectangle for each series lies on top of the image and shows the tooltip.
"""

from base64 import b64encode
from collections.abc import Container
from io import BytesIO

import numpy as np
import pandas as pd
from PIL import Image

from dashboards.charts import TIME_AXIS, axis, value_field
from dashboards.colours import CIVIDIS, GREY
from dashboards.history import grid
from dashboards.panels import Panel
from dashboards.panels.ranks import ALL_HOSTS

CULPRIT = "◀"
MAX_ROW_PIXELS = 26
MAX_MAP_PIXELS = 468  # the limit for all rows together: 36 rows still have all their labels
LABEL_PIXELS = 10
LABELLED_ROW_PIXELS = 13  # rows of this height or more all have their labels
AXIS_AND_LEGEND_PIXELS = 105
_STOPS = np.array([[int(colour[digit : digit + 2], 16) for digit in (1, 3, 5)] for colour in CIVIDIS])


def table(panel: Panel, values: pd.DataFrame, resolution: int, culprits: Container[str]) -> pd.DataFrame:
    """Return a row for each series of a FRAME, and one for the image.

    The rows of culprits come first and have a sign. Then follow the rows about all hosts. A value is the mean of the
    `resolution` seconds before its time, and is drawn over these seconds.
    """
    names, series_values = grid(values)
    order = sorted(
        range(len(names)), key=lambda index: (names[index] not in culprits, not names[index].startswith(ALL_HOSTS))
    )
    series_values = series_values[order]
    lightest = np.fmin if panel.light_values == "low" else np.fmax
    rows = pd.DataFrame(
        {
            "kind": "row",
            "position": range(len(order)),
            "series": [f"{names[index]} {CULPRIT}" if names[index] in culprits else names[index] for index in order],
            "value": lightest.reduce(series_values, axis=1),
            "mean": np.nanmean(series_values, axis=1),
        }
    )
    png = _png(series_values, is_reversed=panel.light_values == "low")
    image = pd.DataFrame({"kind": ["image"], "url": [f"data:image/png;base64,{b64encode(png).decode()}"]})
    rows_and_image = pd.concat([rows, image], ignore_index=True)
    begin = values["time"].iloc[0] - pd.Timedelta(seconds=resolution)
    end = values["time"].iloc[-1]
    return rows_and_image.assign(time=begin, until=end)


def _png(values: np.ndarray, *, is_reversed: bool) -> bytes:
    """Return a PNG with a pixel for each value from 0 to 1. Unknown values are transparent."""
    shares = 1 - values if is_reversed else values
    positions = np.clip(np.nan_to_num(shares), 0, 1) * (len(_STOPS) - 1)
    channels = [np.interp(positions, np.arange(len(_STOPS)), _STOPS[:, channel]) for channel in range(3)]
    pixels = np.stack([*channels, np.where(np.isnan(values), 0, 255)], axis=-1)
    file = BytesIO()
    Image.fromarray(pixels.round().astype(np.uint8)).save(file, "PNG")
    return file.getvalue()


def specification(panel: Panel, num_series: int, *, is_long: bool) -> dict[str, object]:
    """Return the specification for Vega-Lite, for a table of `num_series` series."""
    across = {"x": {"field": "time", **TIME_AXIS, "axis": axis(is_long)}, "x2": {"field": "until"}}
    colours = CIVIDIS[::-1] if panel.light_values == "low" else CIVIDIS
    lightest = {**value_field(panel), "title": "lightest"}
    return {
        "description": panel.question,
        "height": min(MAX_MAP_PIXELS, MAX_ROW_PIXELS * num_series) + AXIS_AND_LEGEND_PIXELS,
        "layer": [
            {
                "transform": [{"filter": "datum.kind == 'image'"}],
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
                        "sort": {"field": "position", "op": "min"},  # without it, a row that moves keeps its old label
                        "title": None,
                        "axis": {
                            "labelOverlap": num_series * LABELLED_ROW_PIXELS > MAX_MAP_PIXELS,
                            "labelFontSize": LABEL_PIXELS,
                            "ticks": False,
                            "domain": False,
                        },
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
