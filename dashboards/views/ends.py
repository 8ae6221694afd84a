"""A table of launches that ended: the outcome of each, and why."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
import streamlit as st

from dashboards.colours import GREEN, GREY, VERMILLION
from dashboards.formats import date_and_time
from dashboards.gpu_time import DAY_SECONDS
from dashboards.http_requests import Unreachable
from dashboards.markup import escaped_html, heading_html, link, row_html, table_html, unknown_html
from dashboards.views import clock
from dashboards.views.context import ViewContext
from zmon.format import counted, duration
from zmon.schema.ended_launch import CANCELLED, DONE, RECOVERY_PHASES, EndedLaunch

ANY_AGE = -1.0  # the hub takes negative seconds for no limit
MAX_ENDS = 10
TINTS = {DONE: GREEN, CANCELLED: GREY}
SOURCE = "GET /api/v1/ends"
HEADS = ("", "ended", "job", "outcome", "ran", "steps", "why")


def show(context: ViewContext) -> None:
    """Draw the ends of the page's job, or of all jobs in the last day. Draw nothing if there is no end."""
    job_id = context.job_id if context.shows_one_job else None
    seconds = ANY_AGE if context.shows_one_job else DAY_SECONDS
    try:
        answer = context.hub.ends(job_id, seconds, MAX_ENDS)
    except Unreachable as error:
        st.html(unknown_html("Ends of launches", error))
        return
    if not answer.ends:
        return
    title = "How did its launches end?" if context.shows_one_job else "Which launches ended in the last day, and how?"
    table = table_html("zmon-ends", HEADS, (_row(end, context) for end in answer.ends))
    st.html(heading_html(title, "", "HTTP", f"<pre>{SOURCE}</pre>") + table)
    if context.shows_one_job:
        for line in recovery_lines(answer.ends):
            st.caption(line)
    num_left_out = answer.num_ends - len(answer.ends)
    if num_left_out > 0:
        st.caption(f"{num_left_out} earlier ends: `zmon ends` lists them.")


def recovery_lines(ends: Sequence[EndedLaunch]) -> list[str]:
    """Return a sentence for each cause, with the number of recoveries, their quantiles, and the longest phase."""
    by_cause: defaultdict[str, list[Mapping[str, float]]] = defaultdict(list)
    for end in ends:
        if end.restart and end.restart.phases:
            by_cause[end.cause or end.outcome].append(end.restart.phases)
    lines = []
    for cause, recoveries in sorted(by_cause.items()):
        seconds = sorted(sum(phases.values()) for phases in recoveries)
        longest = max(RECOVERY_PHASES, key=lambda phase: sum(phases.get(phase, 0.0) for phases in recoveries))
        mean = sum(phases.get(longest, 0.0) for phases in recoveries) / len(recoveries)
        median, p95 = (duration(float(quantile)) for quantile in np.quantile(seconds, (0.5, 0.95)))
        most = f"most of it is {longest.replace('_', ' ')}, {duration(mean)} on average"
        times = counted(len(seconds), "time")
        lines.append(f"Recovery after {cause}, {times}: median {median}, 95 % quantile {p95}; {most}.")
    return lines


def _row(end: EndedLaunch, context: ViewContext) -> str:
    address = context.address.moved(job_id=end.job_id, at=end.ended)
    cells = [
        clock.html(end.ended, date_and_time),
        link("job", address.params(), end.job_id),
        escaped_html(end.outcome.replace("_", " ")),
        duration(end.seconds),
        end.steps_text,
        escaped_html(end.reason),
    ]
    return row_html(cells, TINTS.get(end.outcome, VERMILLION))
