"""Draws a panel over time, in colours that colour-blind people tell apart, on light and on dark.

A drawing is Vega-Lite that names its data and holds none: it changes only when somebody is blamed, so a refresh moves
the lines and does not redraw the chart. (Altair names its data by their content, which makes every refresh a new
chart.) What is marked on a chart is a table of its own: what a layer leaves out, a browser asks each row of its table.
"""

import re
from collections.abc import Sequence

import numpy as np
import pandas as pd
import pyarrow as pa  # type: ignore[import-untyped]

from dashboards.colours import CAUSES, GREY, ORANGE, SERIES, VERMILLION, of_cause
from dashboards.history import grid
from dashboards.marks import Mark
from dashboards.panels import Panel
from dashboards.words import UNKNOWN

LINES, MARKS = "lines", "marks"  # the tables of a drawing
MARK = pa.schema(
    [(name, pa.string()) for name in ("kind", "series", "severity", "text")]
    + [(name, pa.float64()) for name in ("time", "until", "value")]
)
TEXT_SHARE = 1 / 6  # of a chart is about as wide as a finding's name
EPOCH = pd.Timestamp(0, tz="UTC")
HEIGHT_PIXELS = 230
LEGEND_COLUMNS, LEGEND_PIXELS = 3, 18  # a row of it, which is taken off the chart above it
COLUMNS = f"width < 400 ? 2 : {LEGEND_COLUMNS}"  # on a phone

SI_PREFIXED = "replace(format(datum.value, '~s'), regexp('([a-zA-Z]?)$'), ' $1')"
AXIS_LABEL = {  # SI prefixes for bytes and hertz only: "120m" of seconds would read as minutes
    "seconds": "format(datum.value, '~g') + ' s'",
    "bytes": f"{SI_PREFIXED} + 'B'",
    "bytes/s": f"{SI_PREFIXED} + 'B/s'",
    "samples/s": "format(datum.value, '~s') + '/s'",
    "share": "format(datum.value, '~%')",
    "per second": "format(datum.value, '~g') + '/s'",
    "°C": "format(datum.value, '~g') + ' °C'",
    "W": "format(datum.value, '~g') + ' W'",
    "Hz": f"{SI_PREFIXED} + 'Hz'",
    "": "format(datum.value, '~g')",
}
NUMBER = {"bytes": ".4~s", "bytes/s": ".4~s", "Hz": ".4~s", "share": ".1%"}
USUAL_NUMBER = ".4~g"
TIME_AXIS = {
    "type": "temporal",
    "title": None,
    "scale": {"type": "utc"},  # one clock for charts, findings and people in several time zones
}


def tables(values: pd.DataFrame, marks: tuple[Mark, ...], begin: float, end: float) -> dict[str, pa.Table]:
    """What a drawing names: a FRAME's lines and what is marked; from when to when, the same for all of a page.

    Marked are findings, what the job was at, and each value that no line is drawn through. Times are in milliseconds.
    Arrow's own tables: of a frame of some hundred rows Streamlit would start a thread for each column.
    """
    _, told = grid(values)
    times = ((values["time"] - EPOCH) / pd.Timedelta(milliseconds=1)).to_numpy().reshape(told.shape)
    series = values["series"].to_numpy(dtype=object).reshape(told.shape)
    shown = times >= 1e3 * begin
    known = np.pad(~np.isnan(told) & shown, ((0, 0), (1, 1)))
    is_known, was_known, will_be_known = known[:, 1:-1], known[:, :-2], known[:, 2:]
    drawn, alone = (is_known | was_known) & shown, is_known & ~was_known & ~will_be_known
    lines = {"time": times[drawn], "series": series[drawn], "value": told[drawn]}
    names = _names(marks, TEXT_SHARE * (end - begin))
    rows = [_row(mark, names.get(place)) for place, mark in enumerate(marks)]
    rows += [_row(Mark("span", "", edge, edge)) for edge in (begin, end)]
    rows += [
        {"kind": "alone", "time": time, "series": name, "value": value}
        for time, name, value in zip(times[alone], series[alone], told[alone], strict=True)
    ]
    return {LINES: pa.table(lines), MARKS: pa.Table.from_pylist(rows, MARK)}


def _row(mark: Mark, text: str | None = None) -> dict[str, str | float | None]:
    times = {"time": 1e3 * mark.start, "until": 1e3 * mark.end}
    return {"kind": mark.kind, **times, "series": mark.label, "severity": mark.severity, "text": text}


def _names(marks: Sequence[Mark], apart: float) -> dict[int, str]:
    """The names that stand beside findings, by a mark's place: where there is room, else one would lie under another.

    `apart` is in seconds.
    """
    names: dict[int, str] = {}
    last = -apart
    for place, mark in sorted(enumerate(marks), key=lambda item: item[1].start):
        if mark.kind == "finding" and mark.start - last >= apart:
            names[place] = f"cause {mark.label}" if mark.label == UNKNOWN else mark.label
            last = mark.start
    return names


def drawing(
    panel: Panel, names: list[str], kinds: set[str], culprits: tuple[int, ...], *, is_long: bool
) -> dict[str, object]:
    """Vega-Lite for such tables with series of these names, marked with these kinds; a culprit's line is thick.

    `is_long`: days, so that the axis tells which. Areas have the colour of their cause, wherever they are. A layer
    takes a browser a while whether or not there is anything on it.
    """
    culprit = re.compile(rf"rank ({'|'.join(map(str, culprits))})\b") if culprits else None
    blamed = [name for name in names if culprit and culprit.match(name)]
    stacked = panel.shape == "areas"
    what = {"field": "series", "type": "nominal", "title": "what"}
    when = {"field": "time", "type": "temporal", "title": "UTC", "timeUnit": "utcdatehoursminutesseconds"}
    width: dict[str, object] = {"value": 1.8}
    if blamed:  # what is asked of each point takes a browser a while
        width["condition"] = {"test": {"field": "series", "oneOf": blamed}, "value": 4}
    encoding: dict[str, object] = {
        "x": {"field": "time", **TIME_AXIS, "axis": axis(is_long)},
        "y": {
            "field": "value",
            "type": "quantitative",
            "title": None,
            "stack": "zero" if stacked else None,
            "scale": {"zero": panel.from_zero},
            "axis": {"labelExpr": AXIS_LABEL[panel.unit], "tickCount": 5},
        },
        "color": {
            "field": "series",
            "type": "nominal",
            "sort": None,  # as in the table, where rank 10 comes after rank 2
            "scale": _by_cause(names) if set(names) <= CAUSES.keys() or stacked else {"range": SERIES},
            "legend": {"title": None, "orient": "bottom", "columns": {"expr": COLUMNS}, "labelLimit": 130},
        },
        "strokeWidth": width,
        "tooltip": what,  # of a line Vega has one, not one for each point of it
    }
    lines = {
        "data": {"name": LINES},
        "mark": (_AREA if stacked else _LINE) | {"aria": False},  # else each of a thousand points is put in words
        "encoding": encoding,
    }
    alone = _only("alone") | {  # what is there now and then has no line to draw
        "mark": {"type": "point", "size": 24, "filled": True, "opacity": 1},
        "encoding": {name: encoding[name] for name in ("x", "y", "color")} | {"tooltip": [what, number(panel), when]},
    }
    above = [alone] if "alone" in kinds and not stacked else []  # it would not lie on what the others sum up to
    below = [_only(kind) | layer for kind, layers in _MARKED.items() if kind in kinds for layer in layers]
    return {
        "description": panel.question,
        "height": HEIGHT_PIXELS + LEGEND_PIXELS * ((len(names) - 1) // LEGEND_COLUMNS),
        "data": {"name": MARKS},
        "layer": [*below, lines, *above, *_reaching(panel.reaches)],
    }


def _only(kind: str) -> dict[str, object]:
    return {"transform": [{"filter": f"datum.kind == '{kind}'"}]}


def number(panel: Panel) -> dict[str, object]:
    """Its value in a tooltip."""
    format_ = NUMBER.get(panel.unit, USUAL_NUMBER)
    return {"field": "value", "type": "quantitative", "title": panel.unit or "value", "format": format_}


def _reaching(value: float | None) -> list[dict[str, object]]:
    """So that the axis goes that far: a chart of what hardly moves shall not look as if it did."""
    return [] if value is None else [{"mark": {"type": "point", "opacity": 0}, "encoding": {"y": {"datum": value}}}]


def _by_cause(names: list[str]) -> dict[str, list[str]]:
    return {"domain": names, "range": [of_cause(name) for name in names]}


def axis(is_long: bool) -> dict[str, object]:
    """Of time."""
    return {"format": "%a %H:%M" if is_long else "%H:%M:%S", "tickCount": 6, "labelOverlap": True}


_LINE, _AREA = {"type": "line"}, {"type": "area", "opacity": 0.85}
_TINT = {"condition": {"test": "datum.severity == 'critical'", "value": VERMILLION}, "value": ORANGE}
_AT = {"x": {"field": "time", **TIME_AXIS}}
_ACROSS = {**_AT, "x2": {"field": "until"}}
_MARKED: dict[str, tuple[dict[str, object], ...]] = {  # by kind, the undermost first
    "activity": (  # what the job was at, where that was not training
        {
            "mark": {"type": "rect", "opacity": 0.3, "color": GREY},
            "encoding": {**_ACROSS, "tooltip": {"field": "series", "type": "nominal", "title": "the job was at"}},
        },
        {
            "mark": {"type": "text", "align": "left", "baseline": "bottom", "dx": 2, "dy": -3, "color": GREY},
            "encoding": {**_AT, "y": {"value": "height"}, "text": {"field": "series"}},
        },
    ),
    "finding": (
        {
            "mark": {"type": "rect", "opacity": 0.18},
            "encoding": {
                **_ACROSS,
                "color": _TINT,
                "tooltip": {"field": "series", "type": "nominal", "title": "finding"},
            },
        },
        {
            "mark": {"type": "rule", "strokeWidth": 2, "strokeDash": [5, 3]},
            "encoding": {**_AT, "color": _TINT},
        },
        {
            "mark": {"type": "text", "align": "left", "baseline": "top", "dx": 4, "y": 4, "fontWeight": "bold"},
            "encoding": {**_AT, "color": _TINT, "text": {"field": "text"}},
        },
    ),
    "moment": ({"mark": {"type": "rule", "strokeWidth": 2, "color": GREY}, "encoding": _AT},),  # where a link leads to
    "span": ({"mark": {"type": "point", "opacity": 0}, "encoding": _AT},),
}
