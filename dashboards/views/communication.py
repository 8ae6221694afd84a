"""The page Communication: bytes, bandwidth, exposed time and skew of collectives, and the network counters."""

import streamlit as st

from dashboards.panels import communication
from dashboards.views import banner, frame, hosts, panel
from dashboards.views.context import ViewContext
from zmon.format import UNKNOWN

ON_SCREEN = 4  # charts on the first screen of a laptop


def show(context: ViewContext) -> None:
    """Draw the page."""
    if context.job_id:
        panel.prefetch(communication.PANELS, context)
    frame.live(banner.line, context)
    frame.choices(context, hosts.choose)
    if context.job_id:
        panel.grid(communication.PANELS[:ON_SCREEN], context)
        frame.later(_draw_lower_part, context)


def _draw_lower_part(context: ViewContext) -> None:
    panel.grid(communication.PANELS[ON_SCREEN:], context)
    st.html(
        f'<p class="zmon-unknown">Traffic between two hosts is {UNKNOWN}: bytes are not counted by destination.</p>'
    )
