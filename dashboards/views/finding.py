"""A finding on a page: culprit, cause, time, cost and next step; then the runbook, stacks and evidence."""

import re
from html import escape
from pathlib import Path

import streamlit as st

from dashboards.address import Address
from dashboards.formats import gpu_time, time_of_day
from dashboards.markup import escaped_html, link
from dashboards.views import clock, evidence
from zmon.format import duration
from zmon.schema.finding import Finding
from zmon.schema.incident import IncidentSummary
from zmon.schema.job import EndedJob

_PACKAGE = Path(__file__).parents[1]  # docs/ is inside the package in a wheel, and beside it in a checkout
RUNBOOKS = (_PACKAGE if (_PACKAGE / "docs").is_dir() else _PACKAGE.parent) / "docs" / "runbooks.md"


def culprit_html(finding: Finding) -> str:
    """Return HTML with the culprit in large letters, then the cause and the time."""
    return (
        f'<p class="culprit">{escape(culprit(finding) or "culprit unknown")}</p>'
        f"<p><b>{escape(finding.cause)}</b> · {when(finding)}</p>"
    )


def next_step_html(finding: Finding, address: Address) -> str:
    """Return HTML with the next step, and links to details."""
    step = f'<p class="next"><b>Do this next</b><br>{escaped_html(finding.detail)}</p>'
    return f"{step}<p>{_links(finding, address)}</p>"


def ended_next_step_html(end: EndedJob, address: Address) -> str:
    """Return HTML with the step that was advised when the job ended, and a link to the incident."""
    step = f'<p class="next"><b>Do this next</b> (as advised at its end)<br>{escaped_html(end.detail)}</p>'
    return f"{step}<p>{link('incidents', address.moved(incident=end.finding).params(), 'the incident')}</p>"


def age_and_cost(finding: Finding, now: float) -> str:
    """Return how long the finding has been open, and the GPU time that it cost."""
    cost = f", {gpu_time(finding.lost_gpu_hours)} lost" if finding.lost_gpu_hours else ""
    return f"open for {duration(max(0.0, now - finding.onset))}{cost}"


def when(finding: Finding | IncidentSummary) -> str:
    """Return HTML with the onset of an open finding, or onset, end and duration of a resolved one."""
    if finding.resolved is None:
        return f"since {clock.html(finding.onset)}"
    lasted = duration(finding.resolved - finding.onset)
    return f"{clock.html(finding.onset)} to {clock.html(finding.resolved)}, {lasted}; resolved"


def was_open(finding: Finding, moment: float | None) -> bool:
    """Return True if the finding was open at that time.

    The time in a URL is a whole second. The onset is rounded down, so that the finding is open at a link to its onset.
    """
    return moment is not None and int(finding.onset) <= moment <= (finding.resolved or moment)


def address_of(finding: Finding, address: Address) -> Address:
    """Return the address of the finding's job, at the time in the URL if it was open then, else now."""
    return address.moved(job_id=finding.job_id, at=address.at if was_open(finding, address.at) else None)


def details(finding: Finding, now: float) -> None:
    """Draw the runbook, stacks and evidence, each in an expander.

    The evidence is drawn again only when it has more fields or stacks. Otherwise it would scroll back to its first line
    at each refresh.
    """
    with st.expander(f"Runbook: {finding.cause}"):
        st.markdown(runbook(finding.runbook))
    view = evidence.EvidenceView(finding.evidence)
    shape = f"{view.fields}, {view.with_stacks}"
    key = f"evidence of {finding.id}: {finding.cause} of {list(finding.ranks)}, {shape}"
    drawn_at, view = st.session_state.setdefault(key, (now, view))
    for rank, stack in view.stacks.items():
        with st.expander(f"Stack of rank {rank}{stack.when}"):
            _draw_text(evidence.stack_text(stack))
    with st.expander("Evidence"):
        as_of = f"As of {time_of_day(drawn_at)}."
        st.caption(f"{as_of} It is updated when more evidence arrives, or when the page is loaded again.")
        _draw_text(view.as_json())


def _draw_text(text: str) -> None:
    """Draw unformatted text. Streamlit would highlight a code block, which takes longer than the whole page."""
    st.html(f'<pre class="zmon-text">{escape(text)}</pre>')


def culprit(finding: Finding | IncidentSummary) -> str:
    """Return the culprits in words, such as `rank 2 on node-1`; empty if there is none."""
    ranks, hosts = finding.ranks, finding.hosts
    ranks_text = f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}" if ranks else ""
    hosts_text = ", ".join(dict.fromkeys(hosts))
    if ranks_text and hosts_text:
        return f"{ranks_text} on {hosts_text}"
    return ranks_text or hosts_text


def runbook(reference: str) -> str:
    """Return the section of docs/runbooks.md that a finding refers to, or a reference to it."""
    anchor = reference.partition("#")[2]
    try:
        text = RUNBOOKS.read_text(encoding="utf-8")
    except OSError:
        return f"See `{reference}` in the project."
    section = re.search(rf"^## {re.escape(anchor)}\n(.*?)(?=^##? |\Z)", text, re.MULTILINE | re.DOTALL | re.IGNORECASE)
    return section[1].strip() if section else f"See `{reference}` in the project."


def _links(finding: Finding, address: Address) -> str:
    """Return HTML with links to the row of the culprit and to the incident."""
    where = address_of(finding, address)
    links = [link("ranks", where.moved(rank=rank).params(), f"rank {rank} in detail") for rank in finding.ranks[:1]]
    links.append(link("incidents", where.moved(incident=finding.id).params(), "the incident"))
    return " · ".join(links)
