"""The last act of zmon on the job, below the banner: otherwise a rank that zmon killed would look like a crash."""

import streamlit as st

from dashboards.formats import date_and_time
from dashboards.gpu_time import DAY_SECONDS
from dashboards.http_requests import Unreachable
from dashboards.markup import escaped_html, link, unknown_html
from dashboards.views import clock
from dashboards.views.context import ViewContext
from zmon.schema.act import OBSERVED

MAX_INTENTS = 50  # the last act is searched among these; most intents are only observed


def show(context: ViewContext) -> None:
    """Draw the last act about this job in the last day, also one that zmon refused; nothing if there is none."""
    if context.job_id is None:
        return
    try:
        intents = context.hub.intents(context.job_id, MAX_INTENTS)
    except Unreachable as error:
        st.html(unknown_html("Acts of zmon", error))
        return
    recent = (intent for intent in intents if context.now.time - intent.time < DAY_SECONDS)
    act = next((intent for intent in recent if intent.result != OBSERVED), None)
    if act is None:
        return
    what = f"zmon: {act.act.replace('_', ' ')} of {act.who}, {act.state}"
    why = f"because of {act.cause} (rule {act.rule}): {'; '.join(act.reasons)}"
    incident_link = link("incidents", context.address.moved(incident=act.finding).params(), "the incident")
    st.html(
        f'<p class="zmon-other" data-testid="zmon-act"><b>{escaped_html(what)}</b>,'
        f" {clock.html(act.time, date_and_time)} · {escaped_html(why)} · {incident_link}</p>"
    )
