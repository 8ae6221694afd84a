"""What went wrong before: the list, and one with all that was kept of it, its runbook beside it."""

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from dashboards.asking import Unreachable
from dashboards.views import banner, finding, frame
from dashboards.views.seen import Seen
from dashboards.words import UNKNOWN, count, duration, link, marked
from zmon.schema.incident import Brief

MOST = 200
REPORT_PIXELS = 900


def show(seen: Seen) -> None:
    """One, if one was chosen; else the list."""
    frame.live(banner.line, seen)
    try:
        listed = seen.hub.incidents()
    except Unreachable as error:
        st.html(f'<p class="zmon-unknown" data-testid="zmon-incidents">Incidents: {UNKNOWN}, {marked(str(error))}</p>')
        return
    chosen = next((one for one in listed if one.id == seen.address.incident), None)
    if chosen:
        _one(chosen, seen)
    elif seen.address.incident:
        st.html(
            f'<p class="zmon-unknown">No incident {marked(seen.address.incident)} is kept: it is younger than a few'
            " seconds, or it was pruned after 30 days.</p>"
        )
    _list(listed, seen)


def _list(listed: Sequence[Brief], seen: Seen) -> None:
    st.markdown("#### What went wrong?")
    if not listed:
        st.html('<p class="zmon-unknown" data-testid="zmon-incidents">No incident is kept.</p>')
        return
    rows = "".join(_row(one, seen) for one in listed[:MOST])
    heads = "".join(f"<th>{head}</th>" for head in ("when (UTC)", "job", "cause", "who", "lasted", "GPU-hours", ""))
    st.html(
        f'<div class="zmon-table" data-testid="zmon-incidents"><table><thead><tr>{heads}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )
    if len(listed) > MOST:
        st.caption(f"{len(listed) - MOST} older ones: `zmon incident` lists all.")


def _row(one: Brief, seen: Seen) -> str:
    moment = pd.Timestamp(one.onset, unit="s").strftime("%d %b %H:%M:%S")
    there = seen.address.moved(job_id=one.job_id)
    cells = [
        link("incidents", there.moved(incident=one.id).params(), moment),
        marked(one.job_id),
        marked(f"{one.cause} ({one.severity})"),
        marked(finding.culprit(one) or "nobody named"),
        "it stands" if one.resolved is None else duration(one.resolved - one.onset),
        count(one.lost_gpu_hours),
        link("job", there.moved(incident=None, at=one.detected).params(), "that minute"),
    ]
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def _one(one: Brief, seen: Seen) -> None:
    """The page that was kept of it; the runbook beside it."""
    who = finding.culprit(one) or "nobody named"
    st.html(f"<h4>{marked(one.cause)}: {marked(who)}, {finding.when(one)}</h4>")
    st.button("All incidents", on_click=frame.go, args=(seen.address.moved(incident=None),))
    left, right = st.columns([3, 2])
    with left:
        try:
            st.iframe(seen.hub.report(one.id), height=REPORT_PIXELS)
        except Unreachable as error:
            st.html(f'<p class="zmon-unknown">Its page: {UNKNOWN}, {marked(str(error))}</p>')
    with right, st.container(border=True, key="zmon-runbook"):
        st.markdown(f"**Runbook: {one.cause}**")
        st.markdown(finding.runbook(f"docs/runbooks.md#{one.cause}"))
