"""The page Job: banner, acts, where the time goes, ranks, charts of steps, throughput and loss, pauses and ends."""

from dashboards.panels import job as panels
from dashboards.panels import scaling
from dashboards.views import acts, banner, ends, frame, panel, pauses, tiles, time_bar, vitals
from dashboards.views.context import ViewContext

PANELS = (
    panels.STEP_TIME, panels.WHERE, panels.THROUGHPUT, scaling.EFFICIENCY,
    panels.LOSS, panels.QUALITY, scaling.PEAK, panels.READS,
)  # fmt: skip


def show(context: ViewContext) -> None:
    """Draw the page: first what needs action, then charts, pauses and ends."""
    if context.job_id:
        panel.prefetch_at(*time_bar.query(context), context)
        panel.prefetch(PANELS, context)
    frame.live(_draw_state, context)
    if not context.job_id:
        return
    frame.choices(context)
    panel.grid(PANELS, context)
    pauses.show(context)
    frame.live(ends.show, context)


def _draw_state(context: ViewContext) -> None:
    banner.show(context)
    acts.show(context)
    if context.job_id:
        vitals.show(context)
        time_bar.show(context)
    banner.details(context)
    if context.job_id:
        tiles.show(context)
