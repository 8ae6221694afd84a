"""A chart of shares over time in plain HTML. A page that has only such charts loads no code that draws charts.

The lines are a picture, because Streamlit removes SVG from HTML.
"""

from collections.abc import Iterator
from html import escape
from urllib.parse import quote

import numpy as np
import pandas as pd

from dashboards.charts import EPOCH
from dashboards.colours import in_order, looks
from dashboards.formats import share
from dashboards.history import grid
from dashboards.panels import Panel
from dashboards.views import clock

WIDTH, HEIGHT = 1000, 100  # of the coordinates; the browser stretches them
LEVELS = (0.0, 0.5, 1.0)  # shares that have a line across the chart


def html(panel: Panel, values: pd.DataFrame, begin: float, end: float) -> str:
    """Return the lines or stacked areas of a FRAME, with its axes and its legend. Times are unix seconds."""
    unordered, rows = grid(values)
    names = in_order(unordered)
    rows = rows[[unordered.index(name) for name in names]]
    seconds = ((values["time"] - EPOCH) / pd.Timedelta(seconds=1)).to_numpy().reshape(rows.shape)[0]
    x = WIDTH * (seconds - begin) / (end - begin)
    shapes = _areas(rows, x) if panel.shape == "areas" else _lines(rows, x)
    colours = [look.colour for look in looks(names)]
    paint = "fill" if panel.shape == "areas" else 'fill="none" stroke-width="1.8" stroke'
    paths = "".join(
        f'<path d="{path}" {paint}="{colour}" vector-effect="non-scaling-stroke"/>'
        for colour, path in zip(colours, shapes, strict=True)
    )
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none"'
    picture = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{paths}</svg>'
    legend = "".join(
        f'<li style="--tint:{colour}">{escape(name)} <b>{_last(row)}</b></li>'
        for name, colour, row in zip(names, colours, rows, strict=True)
    )
    levels = "".join(f'<i style="bottom:{100 * level:g}%">{share(level)}</i>' for level in LEVELS)
    return (
        f'<div class="zmon-plain" data-testid="zmon-{panel.key}"><div class="levels">{levels}'
        f'<img alt="{escape(panel.question)}" src="data:image/svg+xml,{quote(picture)}"></div>'
        f"{clock.axis(begin, end)}</div>"
        f'<ul class="zmon-legend">{legend}</ul>'
    )


def _last(row: np.ndarray) -> str:
    """Return the last known value in words."""
    return share(float(row[~np.isnan(row)][-1]))


def _lines(rows: np.ndarray, x: np.ndarray) -> Iterator[str]:
    """Yield the SVG path of each row: a line for each run of known values."""
    for row in rows:
        yield "".join(f"M{_points(x[run], row[run])}" for run in _runs(~np.isnan(row)))


def _areas(rows: np.ndarray, x: np.ndarray) -> Iterator[str]:
    """Yield one area for each row, on top of the areas before. An unknown value counts as 0 if another row has one."""
    runs = _runs(~np.isnan(rows).all(axis=0))
    tops = np.cumsum(np.nan_to_num(rows), axis=0)
    for below, above in zip(np.vstack([np.zeros_like(x), tops[:-1]]), tops, strict=True):
        yield "".join(f"M{_points(x[run], above[run])}L{_points(x[run][::-1], below[run][::-1])}Z" for run in runs)


def _points(x: np.ndarray, shares: np.ndarray) -> str:
    return " ".join(f"{left:.1f},{top:.2f}" for left, top in zip(x, HEIGHT * (1 - shares), strict=True))


def _runs(known: np.ndarray) -> list[slice]:
    """Return the ranges in which all values are known."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], known, [False]])))
    return [slice(start, stop) for start, stop in edges.reshape(-1, 2)]
