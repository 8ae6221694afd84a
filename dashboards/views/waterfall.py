"""A waterfall chart from self time to wall-clock: the seconds that each time category adds to a step."""

import pandas as pd
import streamlit as st

from dashboards import colours
from dashboards.asking import Unreachable
from dashboards.charts import AXIS_LABEL, HEIGHT_PIXELS
from dashboards.queries import quoted
from dashboards.views import panel
from dashboards.views.context import ViewContext
from zmon.format import UNKNOWN, duration
from zmon.schema.names import PHASES

# Seconds per step and time category: all wall-clock of the time range, divided by the steps that ended in it.
TIME_PER_STEP = """
max by (cause) (increase(zmon_job_time_seconds_total{job_id=$job}[$range]))
/ on () group_left () (max(increase(zmon_job_step_duration_seconds_count{job_id=$job}[$range])) > 0)
""".strip()
IDEAL = "self time, median rank"
TOTAL = "wall-clock"
AXIS_RATIO = 1.2  # length of the axis ÷ length of the longest bar; leaves space for the text behind the bar
MIN_CATEGORY_RATIO = 0.002  # categories with a smaller share of wall-clock share one bar, which names them


def show(context: ViewContext) -> None:
    """Draw the bars, and the sum in words."""
    span = context.span
    promql = TIME_PER_STEP.replace("$job", quoted(context.job_id or "")).replace("$range", f"{span.end - span.start}s")
    panel.heading("What makes a step longer than its self time?", "seconds", promql, context, span)
    try:
        seconds_by_cause = {
            sample.labels["cause"]: sample.value for sample in context.prometheus.query_at(promql, span.end)
        }
        if not sum(seconds_by_cause.values()) > 0:
            raise Unreachable("Prometheus has no zmon_job_time_seconds_total of a step that ended in this time range")
    except Unreachable as error:
        panel.unknown("waterfall", f"{UNKNOWN}: {error}")
        return
    table = bars(seconds_by_cause)
    st.vega_lite_chart(table, specification(list(table["cause"])), key="chart-waterfall")
    ideal, total = float(table["end"].iloc[0]), float(table["end"].iloc[-1])
    st.caption(f"{duration(total)} of wall-clock per step, of which {duration(ideal)} are self time.")


def bars(seconds_by_cause: dict[str, float]) -> pd.DataFrame:
    """Return begin and end of each bar: self time, other categories by size, small ones in one bar, and the sum."""
    total = sum(seconds_by_cause.values())
    self_time = sum(seconds_by_cause.get(phase, 0.0) for phase in PHASES)
    others = [item for item in seconds_by_cause.items() if item[0] not in PHASES]
    rows, start = [(IDEAL, 0.0, self_time, "own")], self_time
    small, small_seconds = [], 0.0
    for cause, seconds in sorted(others, key=lambda item: -item[1]):
        if seconds < MIN_CATEGORY_RATIO * total:
            small.append(cause)
            small_seconds += seconds
            continue
        rows.append((cause, start, start + seconds, cause))
        start += seconds
    if small_seconds > 0:
        rows.append((", ".join(small), start, start + small_seconds, ""))
    rows.append((TOTAL, 0.0, total, ""))
    return pd.DataFrame(
        [(cause, begin, end, duration(end - begin), colours.of_category(tint)) for cause, begin, end, tint in rows],
        columns=["cause", "start", "end", "label", "colour"],
    ).assign(axis_end=AXIS_RATIO * total)


def specification(causes: list[str]) -> dict[str, object]:
    """Return the specification for Vega-Lite, for bars with these names."""
    y = {"field": "cause", "type": "nominal", "sort": None, "title": None, "axis": {"labelLimit": 160, "ticks": False}}
    axis = {"labelExpr": AXIS_LABEL["seconds"], "tickCount": 4}
    x = {"field": "start", "type": "quantitative", "title": None, "axis": axis}
    return {
        "description": "Seconds that each time category adds to a step",
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
                "encoding": {"y": y, "x": {"field": "axis_end", "type": "quantitative"}},
            },
        ],
    }
