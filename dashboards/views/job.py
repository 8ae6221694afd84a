"""The page Job: the banner, the ranks, charts of step time, time categories, throughput and loss, and pauses."""

import streamlit as st

from dashboards.panels import job as panels
from dashboards.panels import scaling
from dashboards.views import banner, frame, panel, pauses, tiles, waterfall
from dashboards.views.context import ViewContext

LOWER_PANELS = (panels.THROUGHPUT, scaling.EFFICIENCY, panels.LOSS, panels.QUALITY, scaling.PEAK, panels.READS)
PANELS = (panels.STEP_TIME, panels.WHERE, *LOWER_PANELS)


def show(context: ViewContext) -> None:
    """Draw the page; the most urgent part comes first."""
    if context.job_id:
        panel.prefetch(PANELS, context)
    frame.live(_draw_state, context)
    if not context.job_id:
        return
    frame.choices(context)
    panel.show(panels.STEP_TIME, context)
    left, right = st.columns(2)
    with left:
        panel.show(panels.WHERE, context)
    with right:
        waterfall.show(context)
    panel.grid(LOWER_PANELS, context)
    pauses.show(context)


def _draw_state(context: ViewContext) -> None:
    banner.show(context)
    if context.job_id:
        banner.vitals(context)
        tiles.show(context)
