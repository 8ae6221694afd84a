"""The last act of zmon on the job, below the banner: a rank that zmon killed looks like any that a signal ended."""

import streamlit as st

from dashboards.asking import Unreachable
from dashboards.formats import date_and_time, escaped_html, link
from dashboards.gpu_time import DAY_SECONDS
from dashboards.views import clock
from dashboards.views.context import ViewContext
from zmon.format import UNKNOWN
from zmon.schema.act import OBSERVED

MAX_INTENTS = 50  # among which the last act is looked for; those that are only observed are more frequent


def show(context: ViewContext) -> None:
    """Draw what zmon did about this job, or refused to do, in the last day; nothing if it intended no act."""
    if context.job_id is None:
        return
    try:
        intents = context.hub.intents(context.job_id, MAX_INTENTS)
    except Unreachable as error:
        st.html(f'<p class="zmon-unknown">Acts of zmon: {UNKNOWN}, {escaped_html(str(error))}</p>')
        return
    recent = (intent for intent in intents if context.now.time - intent.time < DAY_SECONDS)
    act = next((intent for intent in recent if intent.result != OBSERVED), None)
    if act is None:
        return
    what = f"zmon: {act.act.replace('_', ' ')} of {act.who}, {act.state}"
    why = f"because of {act.cause} (rule {act.rule}): {'; '.join(act.reasons)}"
    lead = link("incidents", context.address.moved(incident=act.finding).params(), "the incident")
    st.html(
        f'<p class="zmon-other" data-testid="zmon-act"><b>{escaped_html(what)}</b>,'
        f" {clock.html(act.time, date_and_time)} · {escaped_html(why)} · {lead}</p>"
    )
