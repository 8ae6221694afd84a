"""What ranks exchange: how much, how fast, who waits for it, who sends more than others, and what the wire says."""

import streamlit as st

from dashboards.panels import communication
from dashboards.views import banner, frame, host, panel
from dashboards.views.seen import Seen
from dashboards.words import UNKNOWN


def show(seen: Seen) -> None:
    """The charts."""
    if seen.job_id:
        panel.ahead(communication.PANELS, seen)
    frame.live(banner.line, seen)
    frame.choices(seen, host.choose)
    if seen.job_id:
        panel.grid(communication.PANELS, seen)
        st.html(
            f'<p class="zmon-unknown">Which host sends to which is {UNKNOWN}: nobody counts bytes by destination.</p>'
        )
