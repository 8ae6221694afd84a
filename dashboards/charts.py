"""Draws a panel over time, in colours that colour-blind people tell apart, on light and on dark.

A drawing is Vega-Lite without data: it changes only when somebody is blamed, so a refresh moves the lines and does not
redraw the chart. (Altair names its data by their content, which makes every refresh a new chart.)
"""

from dashboards.panels import Panel

# Okabe and Ito's palette without black, which is lost on dark, and without vermillion, which is kept for the culprit.
BLUE, SKY, GREEN, ORANGE, PURPLE, YELLOW = "#0072B2", "#56B4E9", "#009E73", "#E69F00", "#CC79A7", "#D4C400"
VERMILLION, GREY = "#D55E00", "#8C8C8C"
SERIES = [SKY, ORANGE, GREEN, PURPLE, BLUE, YELLOW, GREY, "#A6761D", "#7A6FD0", "#66C2A5"]
HEIGHT_PIXELS = 230

SI_PREFIXED = "replace(format(datum.value, '~s'), regexp('([a-zA-Z]?)$'), ' $1')"
AXIS_LABEL = {  # SI prefixes for bytes only: "120m" of seconds would read as minutes
    "seconds": "format(datum.value, '~g') + ' s'",
    "bytes": f"{SI_PREFIXED} + 'B'",
    "bytes/s": f"{SI_PREFIXED} + 'B/s'",
    "": "format(datum.value, '~g')",
}
NUMBER = {"seconds": ".4~g", "bytes": ".4~s", "bytes/s": ".4~s", "": ".4~g"}


def drawing(panel: Panel, onset: float | None, culprits: tuple[int, ...]) -> dict:
    """Vega-Lite for a table of time, series and value; the moment of the fault is marked, a culprit's line is thick."""
    blamed = rf"test(regexp('^rank ({'|'.join(map(str, culprits))})\\b'), datum.series)" if culprits else "false"
    layers = [
        {
            "mark": {"type": "area", "opacity": 0.85} if panel.stacked else {"type": "line"},
            "encoding": {
                "x": {"field": "time", "type": "temporal"},
                "y": {
                    "field": "value",
                    "type": "quantitative",
                    "title": None,
                    "stack": "zero" if panel.stacked else None,
                    "scale": {"zero": panel.from_zero},
                    "axis": {"labelExpr": AXIS_LABEL[panel.unit], "tickCount": 5},
                },
                "color": {
                    "field": "series",
                    "type": "nominal",
                    "sort": None,  # as in the table, where rank 10 comes after rank 2
                    "scale": {"range": SERIES},
                    "legend": {"title": None, "orient": "bottom", "columns": 3, "labelLimit": 120},
                },
                "strokeWidth": {"condition": {"test": blamed, "value": 4}, "value": 1.8},
                "tooltip": [
                    {"field": "series", "type": "nominal", "title": "what"},
                    {
                        "field": "value",
                        "type": "quantitative",
                        "title": panel.unit or "value",
                        "format": NUMBER[panel.unit],
                    },
                    {"field": "time", "type": "temporal", "title": "UTC", "timeUnit": "utchoursminutesseconds"},
                ],
            },
        }
    ]
    if onset is not None:
        layers.append(
            {
                "mark": {"type": "rule", "color": VERMILLION, "strokeWidth": 2, "strokeDash": [5, 3]},
                "encoding": {"x": {"datum": onset * 1000, "type": "temporal"}},
            }
        )
    return {
        "height": HEIGHT_PIXELS,
        "encoding": {
            "x": {
                "type": "temporal",
                "title": None,
                "scale": {"type": "utc"},  # one clock for charts, findings and people in several time zones
                "axis": {"format": "%H:%M:%S", "tickCount": 6, "labelOverlap": True},
            }
        },
        "layer": layers,
    }
