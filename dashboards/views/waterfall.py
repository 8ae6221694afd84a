"""From an ideal step to a real one: what each cause adds, over the time that is looked at."""

import pandas as pd
import streamlit as st

from dashboards import colours
from dashboards.asking import Unreachable
from dashboards.charts import AXIS_LABEL, HEIGHT_PIXELS
from dashboards.queries import quoted
from dashboards.views import panel
from dashboards.views.seen import Seen
from dashboards.words import UNKNOWN, duration
from zmon.schema.names import PHASES

# Seconds by cause, of each step that ended in that time: all of the wall-clock, shared out.
SPENT = """
max by (cause) (increase(zmon_job_time_seconds_total{job_id=$job}[$range]))
/ on () group_left () (max(increase(zmon_job_step_duration_seconds_count{job_id=$job}[$range])) > 0)
""".strip()
WORK = PHASES
IDEAL = "own work, middle rank"
REACH = 1.2  # of the longest bar, so that what is said behind it has room
LEAST_SHARE = 0.002  # of all: less is not drawn


def show(seen: Seen) -> None:
    """The bars, and the sum in words."""
    span = seen.span
    promql = SPENT.replace("$job", quoted(seen.job_id or "")).replace("$range", f"{span.end - span.start}s")
    panel.heading("What makes a step longer than its own work?", "seconds", promql, seen, span)
    try:
        spent = {one.labels["cause"]: one.value for one in seen.prometheus.then(promql, span.end)}
        if not sum(spent.values()) > 0:
            raise Unreachable("Prometheus has no zmon_job_time_seconds_total of a step that ended in this time")
    except Unreachable as error:
        panel.unknown("waterfall", f"{UNKNOWN}: {error}")
        return
    table = bars(spent)
    st.vega_lite_chart(table, drawing(list(table["cause"])), key="chart-waterfall")
    ideal, total = float(table["end"].iloc[0]), float(table["end"].iloc[-1])
    st.caption(f"{duration(total)} of wall-clock a step, {duration(ideal)} of it work of its own.")


def bars(spent: dict[str, float]) -> pd.DataFrame:
    """Where each bar begins and ends: own work first, what else there is from the most to the least, then the sum."""
    total = sum(spent.values())
    own = sum(spent.get(phase, 0.0) for phase in WORK)
    others = sorted(((cause, s) for cause, s in spent.items() if cause not in WORK), key=lambda one: -one[1])
    rows, at = [(IDEAL, 0.0, own, "own")], own
    small = 0.0
    for cause, seconds in others:
        if seconds < LEAST_SHARE * total:
            small += seconds
            continue
        rows.append((cause, at, at + seconds, cause))
        at += seconds
    if small > 0:
        rows.append(("the rest", at, at + small, ""))
    rows.append(("as it is", 0.0, total, ""))
    return pd.DataFrame(
        [(cause, start, end, duration(end - start), colours.of_cause(tint)) for cause, start, end, tint in rows],
        columns=["cause", "start", "end", "said", "colour"],
    ).assign(reach=REACH * total)


def drawing(causes: list[str]) -> dict[str, object]:
    """Vega-Lite for such a table."""
    y = {"field": "cause", "type": "nominal", "sort": None, "title": None, "axis": {"labelLimit": 160, "ticks": False}}
    axis = {"labelExpr": AXIS_LABEL["seconds"], "tickCount": 4}
    x = {"field": "start", "type": "quantitative", "title": None, "axis": axis}
    return {
        "description": "What each cause adds to a step",
        "height": max(HEIGHT_PIXELS, 26 * len(causes)),
        "layer": [
            {
                "mark": {"type": "bar"},
                "encoding": {
                    "y": y,
                    "x": x,
                    "x2": {"field": "end"},
                    "color": {"field": "colour", "type": "nominal", "scale": None},
                    "tooltip": [{"field": "cause", "title": "cause"}, {"field": "said", "title": "a step"}],
                },
            },
            {
                "mark": {"type": "text", "align": "left", "dx": 4, "color": colours.GREY},
                "encoding": {"y": y, "x": {"field": "end", "type": "quantitative"}, "text": {"field": "said"}},
            },
            {
                "mark": {"type": "point", "opacity": 0},
                "encoding": {"y": y, "x": {"field": "reach", "type": "quantitative"}},
            },
        ],
    }
