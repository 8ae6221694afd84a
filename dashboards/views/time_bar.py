"""The time of a step as one bar from the ideal step to the real one, with the seconds of each category.

The ideal step is the computing of the median rank. Then follow what makes the real step longer: input, imbalance,
communication by op, other activities, stalls and restarts. The bar is plain HTML, so it is there before any chart.
"""

from collections.abc import Callable, Mapping
from html import escape
from typing import NamedTuple

import streamlit as st

from dashboards.colours import BLUE, COMPUTING, GREY, category_colour, in_order
from dashboards.formats import share
from dashboards.http_requests import Unreachable
from dashboards.markup import escaped_markdown
from dashboards.queries import quoted
from dashboards.views import panel
from dashboards.views.context import ViewContext
from zmon.format import UNKNOWN, duration

# Seconds per step and time category: all wall-clock of the time range, divided by the steps that ended in it.
TIME_PER_STEP = """
max by (cause) (increase(zmon_job_time_seconds_total{job_id=$job}[$range]))
/ on () group_left () (max(increase(zmon_job_step_duration_seconds_count{job_id=$job}[$range])) > 0)
""".strip()
QUESTION = "Where does the time of a step go?"
IDEAL, INPUT, OTHERS = "ideal", "input", "others"
MIN_RATIO = 0.002  # categories with a smaller share of wall-clock are drawn together, as the part OTHERS
LABELLED_RATIO = 0.07  # a narrower part of the bar has no room for its name; the list below has all
MEANINGS = {  # of each category that is neither an op nor an activity
    "data": "waiting for the DataLoader",
    "offload": "waiting for parameters on a disk or in the memory of the host",
    "imbalance": "waiting for the slowest rank",
    "stall": "nothing moved",
    "restart": "from one launch to the next",
    UNKNOWN: "steps that not all ranks reported",
}


class Part(NamedTuple):
    """A part of the bar."""

    name: str
    seconds: float
    colour: str
    meaning: str


def query(context: ViewContext) -> tuple[str, int]:
    """Return the PromQL of the bar and its time."""
    span = context.span
    promql = TIME_PER_STEP.replace("$job", quoted(context.job_id or "")).replace("$range", f"{span.end - span.start}s")
    return promql, span.end


def show(context: ViewContext) -> None:
    """Draw the bar, its sum in words, and the list of its parts."""
    promql, end = query(context)
    panel.heading(QUESTION, "", promql, context, context.span)
    reason = "Prometheus has no zmon_job_time_seconds_total of a step that ended in this time range"
    try:
        seconds = {sample.labels["cause"]: sample.value for sample in context.prometheus.query_at(promql, end)}
    except Unreachable as error:
        seconds = {}
        reason = str(error)
    if sum(seconds.values()) > 0:
        st.html(html(parts(seconds), "for each step on average, stalls included"))
        return
    account = context.now.job.time if context.now.job else {}
    if not sum(account.values()) > 0:
        panel.unknown("time", f"{UNKNOWN}: {reason}")
        return
    st.html(html(parts(account), "over all launches of the job"))
    st.caption(escaped_markdown(f"{reason}: this is the time account of the hub."))


def parts(seconds_by_category: Mapping[str, float]) -> list[Part]:
    """Return the parts of the bar: the ideal step, what is added to it, and the small categories as one part."""
    total = sum(seconds_by_category.values())
    ideal = sum(seconds_by_category.get(phase, 0.0) for phase in COMPUTING)
    result = [Part(IDEAL, ideal, BLUE, "self time of the median rank, without waiting")]
    small: dict[str, float] = {}
    for category in in_order([name for name in seconds_by_category if name not in COMPUTING]):
        seconds = seconds_by_category[category]
        if seconds >= MIN_RATIO * total:
            name = INPUT if category == "data" else category
            meaning = MEANINGS.get(category, f"time in {category}")
            result.append(Part(name, seconds, category_colour(category), meaning))
        elif seconds > 0:
            small[category] = seconds
    if small:
        result.append(Part(OTHERS, sum(small.values()), GREY, ", ".join(small)))
    return result


def html(bar_parts: list[Part], what: str, in_words: Callable[[float], str] = duration) -> str:
    """Return the bar and its list as HTML. The text `what` follows the sum, and `in_words` formats seconds."""
    total = sum(part.seconds for part in bar_parts)
    ideal = bar_parts[0].seconds
    bar = "".join(_bar_html(part, total, in_words) for part in bar_parts)
    rows = "".join(_legend_html(part, total, in_words) for part in bar_parts)
    return (
        f'<div class="zmon-time" data-testid="zmon-time"><p><b>{in_words(total)}</b> {what}, '
        f"<b>{in_words(ideal)}</b> of it ideal: <b>{share(ideal / total)}</b></p>"
        f'<div role="img" aria-label="From the ideal to the real">{bar}</div><ul class="zmon-legend">{rows}</ul></div>'
    )


def _bar_html(part: Part, total: float, in_words: Callable[[float], str]) -> str:
    ratio = part.seconds / total
    label = escape(part.name) if ratio >= LABELLED_RATIO else ""
    title = escape(f"{part.name} ({part.meaning}): {in_words(part.seconds)}, {share(ratio)}")
    return f'<i style="--tint:{part.colour};width:{100 * ratio:.4g}%" title="{title}">{label}</i>'


def _legend_html(part: Part, total: float, in_words: Callable[[float], str]) -> str:
    name = f"{part.name}: {part.meaning}" if part.name == OTHERS else part.name
    return (
        f'<li style="--tint:{part.colour}" title="{escape(part.meaning)}">{escape(name)}'
        f" <b>{in_words(part.seconds)}</b> <small>{share(part.seconds / total)}</small></li>"
    )
