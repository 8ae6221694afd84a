"""One job: is it healthy; if not, who, and what to do; then how fast it is, where time goes, and whether it learns."""

import streamlit as st

from dashboards.panels import job as panels
from dashboards.panels import scaling
from dashboards.views import banner, frame, panel, tiles, waterfall
from dashboards.views.seen import Seen

BELOW = (panels.THROUGHPUT, scaling.EFFICIENCY, panels.LOSS, panels.QUALITY)
PANELS = (panels.STEP_TIME, panels.WHERE, *BELOW)


def show(seen: Seen) -> None:
    """From what is read first to what explains it."""
    if seen.job_id:
        panel.ahead(PANELS, seen)
    frame.live(_now, seen)
    if not seen.job_id:
        return
    frame.choices(seen)
    panel.show(panels.STEP_TIME, seen)
    left, right = st.columns(2)
    with left:
        panel.show(panels.WHERE, seen)
    with right:
        waterfall.show(seen)
    panel.grid(BELOW, seen)


def _now(seen: Seen) -> None:
    banner.show(seen)
    if seen.job_id:
        banner.vitals(seen)
        tiles.show(seen)
