"""The table of ranks: a row for each rank in its last known state, or for a large job one page of rows.

The hub sorts the rows of a large job and answers with one page of them. A table of 16,384 rows would take seconds to
draw, every two seconds.
"""

from collections.abc import Callable, Hashable

import pandas as pd
import streamlit as st
from pandas.io.formats.style import Styler

from dashboards import heat
from dashboards.http_requests import Unreachable
from dashboards.markup import unknown_html
from dashboards.severity import is_info
from dashboards.views import frame, tiles
from dashboards.views.context import ViewContext
from zmon.format import UNKNOWN, duration
from zmon.schema.api import RankList, RankRow, RanksRequest

COLUMNS = {  # by field of the hub's answer: the head of the column
    "rank": "rank",
    "host": "host",
    "activity": "activity",
    "phase": "phase",
    "step": "step",
    "self_seconds": "self time",
    "exposed_seconds": "exposed time",
    "op": "in flight",
    "in_flight_seconds": "in flight for",
    "state_seconds": "unchanged for",
    "overdue_seconds": "overdue",
    "alive": "alive",
    "process_state": "process",
    "last_words": "last words",
}
SECONDS = [head for field, head in COLUMNS.items() if field.endswith("_seconds")]
PAGE_ROWS = 50  # of a large job
SHORT_ROWS = 8  # a table of at most this many rows is as high as its content
TABLE_PIXELS = 330  # the height of a longer table, which scrolls
CULPRIT_PIXELS = 90

ORDERS = {  # by order of the hub: its name for people
    "urgency": "what stands out",
    "rank": "rank",
    "-self_seconds": "longest self time",
    "exposed_seconds": "least exposed time",
    "-in_flight_seconds": "longest in flight",
    "-overdue_seconds": "longest overdue",
    "-state_seconds": "longest unchanged",
    "step": "furthest behind",
}


def show(context: ViewContext) -> None:
    """Draw a row for each rank in its last known state. Self time and exposed time are from its last step."""
    is_large = (context.now.num_ranks or 0) > tiles.MAX_RANKS
    sorting = "choose the order below" if is_large else "click a column to sort"
    st.markdown(f"**What does each rank do now?** Select a row for details; {sorting}")
    address = context.address
    all_rows = RanksRequest(context.job_id or "")
    one_page = RanksRequest(context.job_id or "", PAGE_ROWS, address.first, address.order, host=address.host)
    try:
        page = context.hub.ranks(one_page if is_large else all_rows)
    except Unreachable as error:
        st.html(unknown_html("Ranks", error))
        return
    if is_large:
        _draw(context, list(page.ranks))
        _turn_pages(context, page)
        return
    rows = [row for row in page.ranks if address.host in (None, row.host)]
    culprits = _culprits(context)
    _draw(context, sorted(rows, key=lambda row: (row.rank not in culprits, row.rank)))


def _turn_pages(context: ViewContext, page: RankList) -> None:
    """Draw the order of the rows, their position among all rows, and links to the pages before and after."""
    address = context.address
    num_rows = page.num_rows
    first = min(address.first, num_rows)
    last = first + len(page.ranks)
    with st.container(horizontal=True, vertical_alignment="center", key="zmon-rows"):
        names = [*dict.fromkeys([*ORDERS, address.order])]
        frame.select("Order", names, address.order, lambda order: address.moved(order=order, first=0), ORDERS)
        for label, start, is_disabled in (
            ("Previous", max(0, first - PAGE_ROWS), first == 0),
            ("Next", last, last >= num_rows),
        ):
            moved = address.moved(first=start)
            st.button(label, disabled=is_disabled, on_click=frame.go, args=(moved,), key=f"{label} of {first}")
        rows = f"Ranks {first + 1:,} to {last:,}" if page.ranks else "No more ranks"
        st.caption(f"{rows} of {num_rows:,}{f' on {address.host}' if address.host else ''}")


def _culprits(context: ViewContext) -> set[int]:
    return {rank for finding in context.now.findings if not is_info(finding.severity) for rank in finding.ranks}


def _draw(context: ViewContext, rows: list[RankRow]) -> None:
    """Draw these rows. A selected row opens the details of its rank."""
    culprits = _culprits(context)
    row_ranks = [row.rank for row in rows]
    table = pd.DataFrame([_cells(row, is_culprit=row.rank in culprits) for row in rows])
    if culprits.isdisjoint(row_ranks):
        table = table.drop(columns="", errors="ignore")
    address = context.address
    selected_row = row_ranks.index(address.rank) if address.rank in row_ranks else None
    # Streamlit stores the index of the selected row, so a new order of rows needs a new table with a new key.
    position = f"{address.order} from {address.first}, {selected_row}"
    selection = f"{address.rank} of {len(row_ranks)}, {position}, first {sorted(culprits)}"
    key = f"ranks of {context.job_id} {address.host}: {selection}"

    def on_select() -> None:
        selected = st.session_state[key].selection.rows
        frame.go(address.moved(rank=row_ranks[selected[0]] if selected else None))

    st.dataframe(
        _with_units(table),
        hide_index=True,
        height="content" if len(table) <= SHORT_ROWS else TABLE_PIXELS,
        key=key,
        on_select=on_select,
        selection_mode="single-row",
        selection_default=None if selected_row is None else {"selection": {"rows": [selected_row]}},
        column_config={"": st.column_config.TextColumn(width=CULPRIT_PIXELS)},
    )


def _with_units(table: pd.DataFrame) -> Styler | pd.DataFrame:
    """Return the table with durations as in the banner; a browser still sorts them by their seconds."""
    formats: dict[Hashable, str | Callable[[object], str] | None] = {
        head: _duration for head in SECONDS if head in table
    }
    return table.style.format(formats, na_rep="") if formats else table


def _duration(cell: object) -> str:
    return duration(cell) if isinstance(cell, int | float) else UNKNOWN


def _cells(row: RankRow, *, is_culprit: bool) -> dict[str, object]:
    cells = {head: getattr(row, field) for field, head in COLUMNS.items()}
    return {"": f"{heat.CULPRIT} culprit" if is_culprit else "", **cells}
