"""Charts over time: the tables that a panel is drawn from, and its specification for Vega-Lite.

A specification refers to its data by name. It stays the same while the series, the kinds of marks and the culprits do,
so a refresh moves the lines and does not redraw the chart. Altair is not used: it derives the name from the data, so
each refresh would create a new chart. The marks on a chart are in a separate table, because a browser evaluates the
filter of a layer for each row of its table.
"""

import re
from collections.abc import Sequence

import numpy as np
import pandas as pd
import pyarrow as pa  # type: ignore[import-untyped]

from dashboards.colours import DASHES, GREY, ORANGE, VERMILLION, looks
from dashboards.history import grid
from dashboards.marks import Mark
from dashboards.panels import Panel
from zmon.format import UNKNOWN

LINES, MARKS = "lines", "marks"  # the names of the tables
MARK = pa.schema(
    [(name, pa.string()) for name in ("kind", "series", "severity", "text")]
    + [(name, pa.float64()) for name in ("time", "until", "value")]
)
TEXT_RATIO = 1 / 6  # the width of the name of a finding, as a share of a chart
EPOCH = pd.Timestamp(0, tz="UTC")
HEIGHT_PIXELS = 230
LEGEND_COLUMNS = 3
LEGEND_ROW_PIXELS = 18
COLUMNS_EXPRESSION = f"width < 400 ? 2 : {LEGEND_COLUMNS}"  # two columns on a phone

SI_PREFIXED = "replace(format(datum.value, '~s'), regexp('([a-zA-Z]?)$'), ' $1')"
SECONDS = (  # as `zmon.format.duration` writes them
    "datum.value == 0 ? '0' : abs(datum.value) < 0.9995 ? format(1000 * datum.value, '~r') + ' ms'"
    " : abs(datum.value) < 120 ? format(datum.value, '~r') + ' s'"
    " : format(datum.value / 60, '~r') + ' min'"
)
AXIS_LABEL = {  # SI prefixes only for bytes, samples and hertz: "120m" seconds would look like minutes
    "seconds": SECONDS,
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
DEFAULT_NUMBER = ".4~g"
TIME_AXIS = {
    "type": "temporal",
    "title": None,
    "scale": {"type": "utc"},  # one clock for charts, findings and people in several time zones
}


def tables(values: pd.DataFrame, marks: tuple[Mark, ...], begin: float, end: float) -> dict[str, pa.Table]:
    """Return the tables of a chart: the lines of a FRAME, and its marks. All charts of a page have one begin and end.

    The marks are findings, activities, and single values without neighbours. `begin` and `end` are unix seconds; times
    in the tables are in milliseconds. The tables are Arrow tables, because Streamlit starts a thread for each column of
    a data frame of some hundred rows.
    """
    _, rows = grid(values)
    times = ((values["time"] - EPOCH) / pd.Timedelta(milliseconds=1)).to_numpy().reshape(rows.shape)
    series = values["series"].to_numpy(dtype=object).reshape(rows.shape)
    is_shown = times >= 1e3 * begin
    is_known = ~np.isnan(rows) & is_shown
    padded = np.pad(is_known, ((0, 0), (1, 1)))
    was_known = padded[:, :-2]  # at the time before
    will_be_known = padded[:, 2:]  # at the time after
    drawn = (is_known | was_known) & is_shown  # with the first unknown value of a gap, at which the line stops
    alone = is_known & ~was_known & ~will_be_known
    lines = {"time": times[drawn], "series": series[drawn], "value": rows[drawn]}
    texts = _texts(marks, TEXT_RATIO * (end - begin))
    mark_rows = [_row(mark, texts.get(index, "")) for index, mark in enumerate(marks)]
    mark_rows += [_row(Mark("span", "", edge, edge)) for edge in (begin, end)]
    mark_rows += [
        {"kind": "alone", "time": time, "series": name, "value": value}
        for time, name, value in zip(times[alone], series[alone], rows[alone], strict=True)
    ]
    return {LINES: pa.table(lines), MARKS: pa.Table.from_pylist(mark_rows, MARK)}


def _row(mark: Mark, text: str = "") -> dict[str, str | float]:
    """Return the row of a mark. A mark without a text has an empty one, because Vega would draw the word null."""
    times = {"time": 1e3 * mark.start, "until": 1e3 * mark.end}
    return {"kind": mark.kind, **times, "series": mark.label, "severity": mark.severity, "text": text}


def _texts(marks: Sequence[Mark], min_seconds: float) -> dict[int, str]:
    """Return the texts beside findings, by index of the mark.

    A text less than `min_seconds` after another is omitted, because it would overlap that one.
    """
    texts: dict[int, str] = {}
    last_start = -min_seconds
    for index, mark in sorted(enumerate(marks), key=lambda item: item[1].start):
        if mark.kind == "finding" and mark.start - last_start >= min_seconds:
            texts[index] = f"cause {mark.label}" if mark.label == UNKNOWN else mark.label
            last_start = mark.start
    return texts


def specification(
    panel: Panel, names: list[str], kinds: set[str], culprits: tuple[int, ...], *, is_long: bool
) -> dict[str, object]:
    """Return the specification for Vega-Lite, for tables with these series and kinds of marks.

    The lines of `culprits`, which are ranks, are thick. `is_long`: the range is at least a day, so the axis shows the
    weekday. Only layers of the given kinds are included, because even an empty layer costs a browser time.
    """
    culprit = re.compile(rf"rank ({'|'.join(map(str, culprits))})\b") if culprits else None
    encoding = _encoding(panel, names, [name for name in names if culprit and culprit.match(name)], is_long=is_long)
    is_stacked = panel.shape == "areas"
    lines = {
        "data": {"name": LINES},
        "mark": (_AREA if is_stacked else _LINE) | {"aria": False},  # otherwise each point gets a description
        "encoding": encoding,
    }
    alone = _of_kind("alone") | {  # values without neighbours, which no line can show
        "mark": {"type": "point", "size": 24, "filled": True, "opacity": 1},
        "encoding": {name: encoding[name] for name in ("x", "y", "color")}
        | {"tooltip": [_SERIES_TIP, value_field(panel), *_time_fields("time")]},
    }
    # On stacked areas, a point would be at a wrong height.
    points = [alone] if "alone" in kinds and not is_stacked else []
    marks = [_of_kind(kind) | layer for kind, layers in _LAYERS.items() if kind in kinds for layer in layers]
    return {
        "description": panel.question,
        "height": HEIGHT_PIXELS + LEGEND_ROW_PIXELS * ((len(names) - 1) // LEGEND_COLUMNS),
        "data": {"name": MARKS},
        "layer": [*marks, lines, *points, *_axis_extension(panel.min_axis_end)],
    }


def _encoding(panel: Panel, names: list[str], culprit_names: list[str], *, is_long: bool) -> dict[str, object]:
    """Return the axes, colours, dashes and widths of the lines or areas."""
    line_looks = looks(names)
    is_stacked = panel.shape == "areas"
    width: dict[str, object] = {"value": 1.8}
    if culprit_names:  # only then, because a browser evaluates the condition for each point
        width["condition"] = {"test": {"field": "series", "oneOf": culprit_names}, "value": 4}
    encoding: dict[str, object] = {
        "x": {"field": "time", **TIME_AXIS, "axis": axis(is_long)},
        "y": {
            "field": "value",
            "type": "quantitative",
            "title": None,
            "stack": "zero" if is_stacked else None,
            "scale": {"zero": panel.from_zero},
            "axis": {"labelExpr": AXIS_LABEL[panel.unit], "tickCount": 5},
        },
        "color": {
            "field": "series",
            "type": "nominal",
            "sort": None,  # the order of the table, in which rank 10 comes after rank 2
            "scale": {"domain": names, "range": [look.colour for look in line_looks]},
            "legend": {"title": None, "orient": "bottom", "columns": {"expr": COLUMNS_EXPRESSION}, "labelLimit": 160},
        },
        "strokeWidth": width,
        "tooltip": _SERIES_TIP,  # Vega has one tooltip for a line, not one for each of its points
    }
    if not is_stacked and any(look.dash != DASHES[0] for look in line_looks):
        scale = {"domain": names, "range": [look.dash for look in line_looks]}
        encoding["strokeDash"] = {"field": "series", "type": "nominal", "sort": None, "scale": scale}
    return encoding


def _of_kind(kind: str) -> dict[str, object]:
    return {"transform": [{"filter": f"datum.kind == '{kind}'"}]}


def value_field(panel: Panel) -> dict[str, object]:
    """Return the field of a tooltip that shows the value, with its unit and format."""
    format_ = NUMBER.get(panel.unit, DEFAULT_NUMBER)
    return {"field": "value", "type": "quantitative", "title": panel.unit or "value", "format": format_}


def _time_fields(field: str, title: str = "") -> list[dict[str, object]]:
    """Return two fields of a tooltip that show a time: in UTC, and in the time zone of the browser."""
    shown: dict[str, object] = {"field": field, "type": "temporal", "format": "%d %b %H:%M:%S"}
    return [
        shown | {"title": f"{title} UTC".strip(), "timeUnit": "utcyearmonthdatehoursminutesseconds"},
        shown | {"title": f"{title} local time".strip(), "timeUnit": "yearmonthdatehoursminutesseconds"},
    ]


def _axis_extension(end: float | None) -> list[dict[str, object]]:
    """Return an invisible point that extends the axis to `end`, so that small changes of the values look small."""
    return [] if end is None else [{"mark": {"type": "point", "opacity": 0}, "encoding": {"y": {"datum": end}}}]


def axis(is_long: bool) -> dict[str, object]:
    """Return the time axis."""
    return {"format": "%a %H:%M" if is_long else "%H:%M:%S", "tickCount": 6, "labelOverlap": True}


def _mark_tip(kind: str) -> list[dict[str, object]]:
    return [_SERIES_TIP | {"title": kind}, *_time_fields("time", "from"), *_time_fields("until", "to")]


_SERIES_TIP: dict[str, object] = {"field": "series", "type": "nominal", "title": "series"}
_LINE = {"type": "line"}
_AREA = {"type": "area", "opacity": 1}  # opaque, so that an area has the same colour as in the time bar
_TINT = {"condition": {"test": "datum.severity == 'critical'", "value": VERMILLION}, "value": ORANGE}
_POSITION = {"x": {"field": "time", **TIME_AXIS}}
_ACROSS = {**_POSITION, "x2": {"field": "until"}}
_LAYERS: dict[str, tuple[dict[str, object], ...]] = {  # by kind of mark; the lowest layer comes first
    "activity": (  # the job did something other than training
        {
            "mark": {"type": "rect", "opacity": 0.3, "color": GREY},
            "encoding": {**_ACROSS, "tooltip": _mark_tip("activity")},
        },
        {
            "mark": {"type": "text", "align": "left", "baseline": "bottom", "dx": 2, "dy": -3, "color": GREY},
            "encoding": {**_POSITION, "y": {"value": "height"}, "text": {"field": "series"}},
        },
    ),
    "finding": (
        {
            "mark": {"type": "rect", "opacity": 0.18},
            "encoding": {**_ACROSS, "color": _TINT, "tooltip": _mark_tip("finding")},
        },
        {
            "mark": {"type": "rule", "strokeWidth": 2, "strokeDash": [5, 3]},
            "encoding": {**_POSITION, "color": _TINT},
        },
        {
            "mark": {"type": "text", "align": "left", "baseline": "top", "dx": 4, "y": 4, "fontWeight": "bold"},
            "encoding": {**_POSITION, "color": _TINT, "text": {"field": "text"}},
        },
    ),
    # the time of a link
    "moment": ({"mark": {"type": "rule", "strokeWidth": 2, "color": GREY}, "encoding": _POSITION},),
    "span": ({"mark": {"type": "point", "opacity": 0}, "encoding": _POSITION},),
}
