"""One finding: who, why, since when, at what cost, what to do; below it runbook, stacks and all the evidence."""

import re
from html import escape
from pathlib import Path

import streamlit as st

from dashboards.address import Address
from dashboards.views import evidence
from dashboards.words import clock, count, duration, link, marked
from zmon.schema.finding import Finding
from zmon.schema.incident import Brief

_PACKAGE = Path(__file__).parents[1]  # a wheel has docs/ within it, a checkout beside it
RUNBOOKS = (_PACKAGE if (_PACKAGE / "docs").is_dir() else _PACKAGE.parent) / "docs" / "runbooks.md"


def who(finding: Finding) -> str:
    """As HTML: the culprit in letters to be read from the door; then why, and since when."""
    return (
        f'<p class="culprit">{escape(culprit(finding) or "nobody named")}</p>'
        f"<p><b>{escape(finding.cause)}</b> · {when(finding)}</p>"
    )


def next_step(finding: Finding, address: Address) -> str:
    """As HTML: what to do, and where there is more to read."""
    what = f'<p class="next"><b>Do this next</b><br>{marked(finding.detail)}</p>'
    return f"{what}<p>{_leads(finding, address)}</p>"


def toll(finding: Finding, now: float) -> str:
    """For how long it has stood, and at what cost."""
    cost = f", {count(finding.lost_gpu_hours)} GPU-hours lost" if finding.lost_gpu_hours else ""
    return f"stands for {duration(max(0.0, now - finding.onset))}{cost}"


def when(finding: Finding | Brief) -> str:
    """Since when it stands, or from when to when it stood."""
    if finding.resolved is None:
        return f"since {clock(finding.onset)}"
    lasted = duration(finding.resolved - finding.onset)
    return f"{clock(finding.onset)} to {clock(finding.resolved)}, {lasted}; it is over"


def stood(finding: Finding, at: float | None) -> bool:
    """Whether it did at that moment: in a URL that is a whole second, and may be the one that it began in."""
    return at is not None and int(finding.onset) <= at <= (finding.resolved or at)


def there(finding: Finding, address: Address) -> Address:
    """Its job, at the moment that is looked at; now, where it did not stand then."""
    return address.moved(job_id=finding.job_id, at=address.at if stood(finding, address.at) else None)


def more(finding: Finding, now: float) -> None:
    """What to read on the way to the machine: each opens in place.

    Evidence stays as a reader first saw it until there is more to tell: drawn anew it would begin at its first line.
    """
    with st.expander(f"Runbook: {finding.cause}"):
        st.markdown(runbook(finding.runbook))
    known = evidence.EvidenceView(finding.evidence)
    shape = f"{known.fields}, {known.with_stacks}"
    key = f"evidence of {finding.id}: {finding.cause} of {list(finding.ranks)}, {shape}"
    at, known = st.session_state.setdefault(key, (now, known))
    for rank, stack in known.stacks.items():
        with st.expander(f"Stack of rank {rank}"):
            _as_it_is(evidence.stack_text(stack))
    with st.expander("Evidence"):
        st.caption(f"As of {clock(at)}. It is told anew when there is more of it, or when the page is loaded again.")
        _as_it_is(known.as_json(finding.ranks))


def _as_it_is(text: str) -> None:
    """Streamlit's blocks of code are coloured, which takes longer than the page."""
    st.html(f'<pre class="zmon-text">{escape(text)}</pre>')


def culprit(finding: Finding | Brief) -> str:
    """rank 2 on node-1; a finding may name several, or none."""
    ranks, hosts = finding.ranks, finding.hosts
    named = f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}" if ranks else ""
    where = ", ".join(dict.fromkeys(hosts))
    if named and where:
        return f"{named} on {where}"
    return named or where


def runbook(reference: str) -> str:
    """The section of docs/runbooks.md that a finding refers to, or where to look for it."""
    anchor = reference.partition("#")[2]
    try:
        text = RUNBOOKS.read_text(encoding="utf-8")
    except OSError:
        return f"See `{reference}` in the project."
    found = re.search(rf"^## {re.escape(anchor)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL | re.IGNORECASE)
    return found[1].strip() if found else f"See `{reference}` in the project."


def _leads(finding: Finding, address: Address) -> str:
    """To the culprit's row, and to the incident."""
    where = there(finding, address)
    leads = [link("ranks", where.moved(rank=rank).params(), f"rank {rank} in detail") for rank in finding.ranks[:1]]
    leads.append(link("incidents", where.moved(incident=finding.id).params(), "the incident"))
    return " · ".join(leads)
