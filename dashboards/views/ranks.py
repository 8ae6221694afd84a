"""Ranks over time, all of them in a table, and one in detail: the light row of the heat map is the one waited for."""

import pandas as pd
import streamlit as st

from dashboards import heat
from dashboards.asking import Unreachable
from dashboards.panels import ranks as panels
from dashboards.severity import is_remark
from dashboards.views import banner, finding, frame, host, panel
from dashboards.views.seen import Seen
from dashboards.words import UNKNOWN, marked
from zmon.schema.api import RankRow

COLUMNS = {  # what the hub tells of a rank, and what it is called here
    "rank": "rank",
    "host": "host",
    "activity": "activity",
    "phase": "phase",
    "step": "step",
    "self_seconds": "own time (s)",
    "exposed_seconds": "waited (s)",
    "op": "inside",
    "in_flight_seconds": "inside for (s)",
    "state_seconds": "unchanged for (s)",
    "overdue_seconds": "overdue (s)",
    "alive": "alive",
    "process_state": "process",
    "last_words": "last words",
}
SHORT_ROWS, TABLE_PIXELS = 8, 330
CULPRIT_PIXELS = 90


def show(seen: Seen) -> None:
    """Over time, then now, then one."""
    if seen.job_id:
        panel.ahead((*panels.PANELS, *(panels.ONE_RANK if seen.address.rank is not None else ())), seen)
    frame.live(banner.line, seen)
    frame.choices(seen, host.choose)
    if not seen.job_id:
        return
    panel.grid(panels.PANELS[:2], seen)
    frame.live(_table, seen)
    if seen.address.rank is not None:
        _one(seen, seen.address.rank)
    panel.show(panels.MEMORY, seen)


def _table(seen: Seen) -> None:
    """A row a rank, as the hub saw it last; own and waited are those of the last whole step."""
    st.markdown("**What does each rank do now?** Choose one to see more of it; a head sorts")
    try:
        rows = list(seen.hub.ranks(seen.job_id or ""))
    except Unreachable as error:
        st.html(f'<p class="zmon-unknown">Ranks: {UNKNOWN}, {marked(str(error))}</p>')
        return
    if seen.address.host:
        rows = [row for row in rows if row.host == seen.address.host]
    blamed = {rank for one in seen.now.findings if not is_remark(one.severity) for rank in one.ranks}
    rows.sort(key=lambda row: (row.rank not in blamed, row.rank))
    table = pd.DataFrame([_cells(row, is_culprit=row.rank in blamed) for row in rows])
    places = [row.rank for row in rows]
    rank, host = seen.address.rank, seen.address.host
    # A row is chosen by its place: where others come to stand in theirs, it is another table.
    key = f"ranks of {seen.job_id} {host}: {rank} of {len(places)}, first {sorted(blamed)}"

    def chosen() -> None:
        rows = st.session_state[key].selection.rows
        frame.go(seen.address.moved(rank=places[rows[0]] if rows else None))

    st.dataframe(
        table,
        hide_index=True,
        height="content" if len(table) <= SHORT_ROWS else TABLE_PIXELS,
        key=key,
        on_select=chosen,
        selection_mode="single-row",
        selection_default={"selection": {"rows": [places.index(rank)]}} if rank in places else None,
        column_config={"": st.column_config.TextColumn(width=CULPRIT_PIXELS)},
    )


def _cells(row: RankRow, *, is_culprit: bool) -> dict[str, object]:
    cells = {head: getattr(row, field) for field, head in COLUMNS.items()}
    return {"": f"{heat.CULPRIT} culprit" if is_culprit else "", **cells}


def _one(seen: Seen, rank: int) -> None:
    """What is known of one rank: who blames it, and what it does over time."""
    st.markdown(f"#### Rank {rank}")
    num_ranks = seen.now.num_ranks
    if num_ranks and rank >= num_ranks:
        st.html(f'<p class="zmon-unknown">There is no rank {rank}: {marked(seen.job_id or "")} has {num_ranks}.</p>')
        return
    for one in seen.now.findings:
        if rank in one.ranks:
            st.html(f'<p class="zmon-other"><b>{marked(one.cause)}</b> · {marked(one.summary)}</p>')
            finding.more(one, seen.now.at)
    panel.grid(panels.ONE_RANK, seen)
