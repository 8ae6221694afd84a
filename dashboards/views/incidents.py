"""The page Incidents: incidents by host and time, their list, and the selected incident with its runbook."""

from collections.abc import Sequence

import streamlit as st

from dashboards.colours import cause_colour
from dashboards.formats import date_and_time, gpu_time
from dashboards.http_requests import Unreachable
from dashboards.markup import escaped_html, link, row_html, table_html, unknown_html
from dashboards.views import banner, clock, finding, frame, incident_times
from dashboards.views.context import ViewContext
from zmon.format import UNKNOWN, duration
from zmon.schema.incident import IncidentSummary

MAX_INCIDENTS = 200
HEADS = ("", "onset", "job", "cause", "culprit", "duration", "GPU time lost", "")
REPORT_PIXELS = 900


def show(context: ViewContext) -> None:
    """Draw the selected incident, if there is one, and the list of all incidents."""
    frame.live(banner.line, context)
    try:
        incidents = context.hub.incidents()
    except Unreachable as error:
        st.html(unknown_html("Incidents", error, "zmon-incidents"))
        return
    selected = next((incident for incident in incidents if incident.id == context.address.incident), None)
    if selected:
        _details(selected, context)
    elif context.address.incident:
        st.html(
            f'<p class="zmon-unknown">There is no incident {escaped_html(context.address.incident)}: it is only seconds'
            " old and not listed yet, or it was deleted after 30 days.</p>"
        )
    _list(incidents, context)


def _list(incidents: Sequence[IncidentSummary], context: ViewContext) -> None:
    st.markdown("#### What went wrong?")
    if not incidents:
        st.html('<p class="zmon-unknown" data-testid="zmon-incidents">No incident is recorded.</p>')
        return
    incident_times.show(incidents[:MAX_INCIDENTS], context.address, context.now.time)
    rows = (_row(incident, context) for incident in incidents[:MAX_INCIDENTS])
    st.html(table_html("zmon-incidents", HEADS, rows))
    if len(incidents) > MAX_INCIDENTS:
        st.caption(f"{len(incidents) - MAX_INCIDENTS} older incidents: `zmon incident` lists all.")


def _row(incident: IncidentSummary, context: ViewContext) -> str:
    address = context.address.moved(job_id=incident.job_id)
    url = address.moved(incident=incident.id).url("incidents")
    cells = [
        f'<a href="{escaped_html(url)}" target="_self">{clock.html(incident.onset, date_and_time)}</a>',
        escaped_html(incident.job_id),
        escaped_html(f"{incident.cause} ({incident.severity})"),
        escaped_html(finding.culprit(incident) or UNKNOWN),
        "still open" if incident.resolved is None else duration(incident.resolved - incident.onset),
        gpu_time(incident.lost_gpu_hours),
        link("job", address.moved(incident=None, at=incident.detected).params(), "charts"),
    ]
    return row_html(cells, cause_colour(incident.cause))


def _details(incident: IncidentSummary, context: ViewContext) -> None:
    """Draw the stored page of an incident, with the runbook beside it."""
    culprit = finding.culprit(incident) or "culprit unknown"
    st.html(f"<h4>{escaped_html(incident.cause)}: {escaped_html(culprit)}, {finding.when(incident)}</h4>")
    st.button("All incidents", on_click=frame.go, args=(context.address.moved(incident=None),))
    left, right = st.columns([3, 2])
    with left:
        try:
            st.iframe(context.hub.report(incident.id), height=REPORT_PIXELS)
        except Unreachable as error:
            st.html(unknown_html("Page of the incident", error))
    with right, st.container(border=True, key="zmon-runbook"):
        st.markdown(f"**Runbook: {incident.cause}**")
        st.markdown(finding.runbook(f"docs/runbooks.md#{incident.cause}"))
