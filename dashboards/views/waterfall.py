"""A waterfall from self time to wall-clock: what each time category adds to a step, over the time range."""

import pandas as pd
import streamlit as st

from dashboards import colours
from dashboards.asking import Unreachable
from dashboards.charts import AXIS_LABEL, HEIGHT_PIXELS
from dashboards.queries import quoted
from dashboards.views import panel
from dashboards.views.context import ViewContext
from dashboards.words import UNKNOWN, duration
from zmon.schema.names import PHASES

# Seconds per step and time category: all wall-clock of the time range, divided by the steps that ended in it.
SPENT = """
max by (cause) (increase(zmon_job_time_seconds_total{job_id=$job}[$range]))
/ on () group_left () (max(increase(zmon_job_step_duration_seconds_count{job_id=$job}[$range])) > 0)
""".strip()
IDEAL = "self time, median rank"
TOTAL = "wall-clock"
REACH = 1.2  # of the longest bar, so that the text behind it has room
LEAST_SHARE = 0.002  # of the wall-clock: less is not drawn


def show(context: ViewContext) -> None:
    """Draw the bars, and the sum in words."""
    span = context.span
    promql = SPENT.replace("$job", quoted(context.job_id or "")).replace("$range", f"{span.end - span.start}s")
    panel.heading("What makes a step longer than its self time?", "seconds", promql, context, span)
    try:
        spent = {sample.labels["cause"]: sample.value for sample in context.prometheus.query_at(promql, span.end)}
        if not sum(spent.values()) > 0:
            raise Unreachable("Prometheus has no zmon_job_time_seconds_total of a step that ended in this time range")
    except Unreachable as error:
        panel.unknown("waterfall", f"{UNKNOWN}: {error}")
        return
    table = bars(spent)
    st.vega_lite_chart(table, specification(list(table["cause"])), key="chart-waterfall")
    ideal, total = float(table["end"].iloc[0]), float(table["end"].iloc[-1])
    st.caption(f"{duration(total)} of wall-clock per step, of which {duration(ideal)} are self time.")


def bars(spent: dict[str, float]) -> pd.DataFrame:
    """Return begin and end of each bar: self time first, then the other categories by size, then the sum."""
    total = sum(spent.values())
    self_time = sum(spent.get(phase, 0.0) for phase in PHASES)
    others = sorted(((cause, s) for cause, s in spent.items() if cause not in PHASES), key=lambda item: -item[1])
    rows, start = [(IDEAL, 0.0, self_time, "own")], self_time
    small = 0.0
    for cause, seconds in others:
        if seconds < LEAST_SHARE * total:
            small += seconds
            continue
        rows.append((cause, start, start + seconds, cause))
        start += seconds
    if small > 0:
        rows.append(("the rest", start, start + small, ""))
    rows.append((TOTAL, 0.0, total, ""))
    return pd.DataFrame(
        [(cause, begin, end, duration(end - begin), colours.of_cause(tint)) for cause, begin, end, tint in rows],
        columns=["cause", "start", "end", "label", "colour"],
    ).assign(reach=REACH * total)


def specification(causes: list[str]) -> dict[str, object]:
    """Return the specification for Vega-Lite, for bars with these names."""
    y = {"field": "cause", "type": "nominal", "sort": None, "title": None, "axis": {"labelLimit": 160, "ticks": False}}
    axis = {"labelExpr": AXIS_LABEL["seconds"], "tickCount": 4}
    x = {"field": "start", "type": "quantitative", "title": None, "axis": axis}
    return {
        "description": "What each time category adds to a step",
        "height": max(HEIGHT_PIXELS, 26 * len(causes)),
        "layer": [
            {
                "mark": {"type": "bar"},
                "encoding": {
                    "y": y,
                    "x": x,
                    "x2": {"field": "end"},
                    "color": {"field": "colour", "type": "nominal", "scale": None},
                    "tooltip": [{"field": "cause", "title": "category"}, {"field": "label", "title": "per step"}],
                },
            },
            {
                "mark": {"type": "text", "align": "left", "dx": 4, "color": colours.GREY},
                "encoding": {"y": y, "x": {"field": "end", "type": "quantitative"}, "text": {"field": "label"}},
            },
            {
                "mark": {"type": "point", "opacity": 0},
                "encoding": {"y": y, "x": {"field": "reach", "type": "quantitative"}},
            },
        ],
    }
