"""The page Ranks: heat maps over time, a table of all ranks, and one rank in detail."""

import streamlit as st

from dashboards.markup import escaped_html
from dashboards.panels import ranks as panels
from dashboards.views import banner, frame, hosts, panel, rank_table
from dashboards.views import finding as finding_view
from dashboards.views.context import ViewContext


def show(context: ViewContext) -> None:
    """Draw the page."""
    if context.job_id:
        panel.prefetch((*panels.PANELS, *(panels.ONE_RANK if context.address.rank is not None else ())), context)
    frame.live(banner.line, context)
    frame.choices(context, hosts.choose)
    if not context.job_id:
        return
    panel.grid(panels.PANELS[:2], context)
    frame.live(rank_table.show, context)
    if context.address.rank is not None:
        _details(context, context.address.rank)
    panel.show(panels.MEMORY, context)


def _details(context: ViewContext, rank: int) -> None:
    """Draw one rank: the findings about it, and its charts."""
    st.markdown(f"#### Rank {rank}")
    num_ranks = context.now.num_ranks
    if num_ranks and rank >= num_ranks:
        job = escaped_html(context.job_id or "")
        st.html(f'<p class="zmon-unknown">There is no rank {rank}: {job} has {num_ranks}.</p>')
        return
    for finding in context.now.findings:
        if rank in finding.ranks:
            st.html(f'<p class="zmon-other"><b>{escaped_html(finding.cause)}</b> · {escaped_html(finding.summary)}</p>')
            finding_view.details(finding, context.now.time)
    panel.grid(panels.ONE_RANK, context)
