"""Incidents over time: a row for each host, and a bar for each incident in the colour of its cause. A click opens it.

The axis ends now. Its length is the shortest of RANGES that reaches the oldest incident. The chart is plain HTML,
because the code for other charts takes long to load.
"""

from collections import Counter
from collections.abc import Sequence
from html import escape

import streamlit as st

from dashboards.address import Address
from dashboards.colours import cause_colour
from dashboards.formats import date_and_time, gpu_time
from dashboards.views import clock, finding
from zmon.format import duration
from zmon.schema.incident import IncidentSummary

RANGES = tuple(3600 * hours for hours in (1, 6, 24, 7 * 24, 30 * 24))  # seconds
MAX_ROWS = 16  # hosts; the ones with the newest incidents
MAX_HOSTS = 8  # of one incident: a network fault may name hundreds
MIN_PIXELS = 8  # the least width of a bar, so that it can be clicked
MIN_RATIO = 0.012  # about the share of MIN_PIXELS in a row
MAX_TRACKS = 4  # incidents at the same time; more lie on top of each other
NO_HOST = "no host"


def show(incidents: Sequence[IncidentSummary], address: Address, now: float) -> None:
    """Draw the rows, the axis, and the causes with their colours. `incidents` are newest first."""
    rows: dict[str, list[IncidentSummary]] = {}
    for incident in incidents:
        for host in dict.fromkeys(incident.hosts[:MAX_HOSTS] or (NO_HOST,)):
            rows.setdefault(host, []).append(incident)
    begin = now - _range(now - min(incident.onset for incident in incidents))
    shown = list(rows.items())[:MAX_ROWS]
    lanes = "".join(_lane(host, host_incidents, address, begin, now) for host, host_incidents in shown)
    axis = clock.axis(begin, now, is_now=True)
    st.html(
        f'<div class="zmon-lanes" data-testid="zmon-incident-times">{lanes}<span></span>{axis}</div>'
        f'<ul class="zmon-legend">{_legend(incidents)}</ul>'
    )
    if len(rows) > MAX_ROWS:
        st.caption(f"{len(rows) - MAX_ROWS} more hosts with older incidents are in the table.")


def _range(seconds: float) -> int:
    """Return the shortest of RANGES that is at least this long, or the longest one."""
    return next((length for length in RANGES if seconds <= length), RANGES[-1])


def _lane(host: str, incidents: Sequence[IncidentSummary], address: Address, begin: float, now: float) -> str:
    """Return the row of a host. Incidents that overlap in time are drawn below each other."""
    narrowest = MIN_RATIO * (now - begin)
    ends: list[float] = []  # of the last bar of each track
    bars = []
    for incident in reversed(incidents):
        track = next((number for number, end in enumerate(ends) if end <= incident.onset), len(ends))
        ends[track : track + 1] = [max(_end(incident, now), incident.onset + narrowest)]  # set, or append
        bars.append(_bar(incident, address, begin, now, min(track, MAX_TRACKS - 1)))
    tracks = min(len(ends), MAX_TRACKS)
    return f'<span>{escape(host)}</span><div style="--tracks:{tracks}">{"".join(bars)}</div>'


def _end(incident: IncidentSummary, now: float) -> float:
    return now if incident.resolved is None else incident.resolved


def _bar(incident: IncidentSummary, address: Address, begin: float, now: float, track: int) -> str:
    """Return the link to an incident, as long as it lasted."""
    end = _end(incident, now)
    left, right = (100 * (max(moment, begin) - begin) / (now - begin) for moment in (incident.onset, end))
    lasted = "still open" if incident.resolved is None else duration(end - incident.onset)
    cost = "" if incident.lost_gpu_hours is None else f", {gpu_time(incident.lost_gpu_hours)} lost"
    what = f"{incident.cause} {finding.culprit(incident)}".strip()
    title = f"{what} in {incident.job_id}: {date_and_time(incident.onset)}, {lasted}{cost}"
    url = address.moved(job_id=incident.job_id).moved(incident=incident.id).url("incidents")
    place = f"--track:{track};left:min({left:.4g}%,100% - {MIN_PIXELS}px);width:{max(0.0, right - left):.4g}%"
    return (
        f'<a href="{escape(url)}" target="_self" title="{escape(title)}" aria-label="{escape(title)}"'
        f' style="--tint:{cause_colour(incident.cause)};{place}"></a>'
    )


def _legend(incidents: Sequence[IncidentSummary]) -> str:
    causes = Counter(incident.cause for incident in incidents)
    return "".join(
        f'<li style="--tint:{cause_colour(cause)}">{escape(cause)} <b>{times} ×</b></li>'
        for cause, times in causes.most_common()
    )
