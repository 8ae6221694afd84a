"""The page Ranks: heat maps over time, a table of all ranks, and one rank in detail."""

import pandas as pd
import streamlit as st

from dashboards import heat
from dashboards.asking import Unreachable
from dashboards.panels import ranks as panels
from dashboards.severity import is_info
from dashboards.views import banner, finding, frame, host, panel
from dashboards.views.context import ViewContext
from dashboards.words import escaped_html
from zmon.format import UNKNOWN
from zmon.schema.api import RankRow

COLUMNS = {  # by field of the hub's answer: the head of the column
    "rank": "rank",
    "host": "host",
    "activity": "activity",
    "phase": "phase",
    "step": "step",
    "self_seconds": "self time (s)",
    "exposed_seconds": "exposed time (s)",
    "op": "in flight",
    "in_flight_seconds": "in flight for (s)",
    "state_seconds": "unchanged for (s)",
    "overdue_seconds": "overdue (s)",
    "alive": "alive",
    "process_state": "process",
    "last_words": "last words",
}
SHORT_ROWS, TABLE_PIXELS = 8, 330
CULPRIT_PIXELS = 90


def show(context: ViewContext) -> None:
    """Draw the page."""
    if context.job_id:
        panel.prefetch((*panels.PANELS, *(panels.ONE_RANK if context.address.rank is not None else ())), context)
    frame.live(banner.line, context)
    frame.choices(context, host.choose)
    if not context.job_id:
        return
    panel.grid(panels.PANELS[:2], context)
    frame.live(_table, context)
    if context.address.rank is not None:
        _details(context, context.address.rank)
    panel.show(panels.MEMORY, context)


def _table(context: ViewContext) -> None:
    """Draw a row for each rank in its last known state. Self time and exposed time are from its last step."""
    st.markdown("**What does each rank do now?** Select a row for details; click a column to sort")
    try:
        rows = list(context.hub.ranks(context.job_id or ""))
    except Unreachable as error:
        st.html(f'<p class="zmon-unknown">Ranks: {UNKNOWN}, {escaped_html(str(error))}</p>')
        return
    if context.address.host:
        rows = [row for row in rows if row.host == context.address.host]
    findings = [each for each in context.now.findings if not is_info(each.severity)]
    culprits = {rank for each in findings for rank in each.ranks}
    rows.sort(key=lambda row: (row.rank not in culprits, row.rank))
    table = pd.DataFrame([_cells(row, is_culprit=row.rank in culprits) for row in rows])
    row_ranks = [row.rank for row in rows]
    rank, host = context.address.rank, context.address.host
    # Streamlit stores the index of the selected row, so a new order of rows needs a new table.
    key = f"ranks of {context.job_id} {host}: {rank} of {len(row_ranks)}, first {sorted(culprits)}"

    def on_select() -> None:
        selected = st.session_state[key].selection.rows
        frame.go(context.address.moved(rank=row_ranks[selected[0]] if selected else None))

    st.dataframe(
        table,
        hide_index=True,
        height="content" if len(table) <= SHORT_ROWS else TABLE_PIXELS,
        key=key,
        on_select=on_select,
        selection_mode="single-row",
        selection_default={"selection": {"rows": [row_ranks.index(rank)]}} if rank in row_ranks else None,
        column_config={"": st.column_config.TextColumn(width=CULPRIT_PIXELS)},
    )


def _cells(row: RankRow, *, is_culprit: bool) -> dict[str, object]:
    cells = {head: getattr(row, field) for field, head in COLUMNS.items()}
    return {"": f"{heat.CULPRIT} culprit" if is_culprit else "", **cells}


def _details(context: ViewContext, rank: int) -> None:
    """Draw one rank: the findings about it, and its charts."""
    st.markdown(f"#### Rank {rank}")
    num_ranks = context.now.num_ranks
    if num_ranks and rank >= num_ranks:
        st.html(
            f'<p class="zmon-unknown">There is no rank {rank}:'
            f" {escaped_html(context.job_id or '')} has {num_ranks}.</p>"
        )
        return
    for each in context.now.findings:
        if rank in each.ranks:
            st.html(f'<p class="zmon-other"><b>{escaped_html(each.cause)}</b> · {escaped_html(each.summary)}</p>')
            finding.details(each, context.now.time)
    panel.grid(panels.ONE_RANK, context)
