"""The page Job: the banner, the ranks, and charts of step time, time categories, throughput and loss."""

import streamlit as st

from dashboards.panels import job as panels
from dashboards.panels import scaling
from dashboards.views import banner, frame, panel, tiles, waterfall
from dashboards.views.context import ViewContext

BELOW = (panels.THROUGHPUT, scaling.EFFICIENCY, panels.LOSS, panels.QUALITY)
PANELS = (panels.STEP_TIME, panels.WHERE, *BELOW)


def show(context: ViewContext) -> None:
    """Draw the page, the most urgent first."""
    if context.job_id:
        panel.prefetch(PANELS, context)
    frame.live(_now, context)
    if not context.job_id:
        return
    frame.choices(context)
    panel.show(panels.STEP_TIME, context)
    left, right = st.columns(2)
    with left:
        panel.show(panels.WHERE, context)
    with right:
        waterfall.show(context)
    panel.grid(BELOW, context)


def _now(context: ViewContext) -> None:
    banner.show(context)
    if context.job_id:
        banner.vitals(context)
        tiles.show(context)
