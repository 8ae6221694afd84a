"""The page Communication: bytes, bandwidth, exposed time and skew of collectives, and the network counters."""

import streamlit as st

from dashboards.panels import communication
from dashboards.views import banner, frame, hosts, panel
from dashboards.views.context import ViewContext
from zmon.format import UNKNOWN


def show(context: ViewContext) -> None:
    """Draw the page."""
    if context.job_id:
        panel.prefetch(communication.PANELS, context)
    frame.live(banner.line, context)
    frame.choices(context, hosts.choose)
    if context.job_id:
        panel.grid(communication.PANELS, context)
        st.html(
            f'<p class="zmon-unknown">Traffic between two hosts is {UNKNOWN}: bytes are not counted by destination.</p>'
        )
