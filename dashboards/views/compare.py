"""Two jobs side by side, or one with itself before: what a step took, and where that went.

It shows differences and judges none: what chance makes of them is what `zmon compare` tells.
"""

from collections.abc import Callable

import streamlit as st

from dashboards.address import RANGES
from dashboards.asking import Unreachable
from dashboards.colours import in_order
from dashboards.side import ASKED, Side, jobs, last_seen, side
from dashboards.views import banner, frame, panel
from dashboards.views.seen import Seen
from dashboards.words import UNKNOWN, count, duration, marked, moment, share

ITSELF = "itself, before that"
Row = tuple[str, str, str, str]


def show(seen: Seen) -> None:
    """The two sides, and what differs."""
    frame.live(banner.line, seen)
    frame.choices(seen)
    if not seen.job_id:
        return
    _other(seen)
    seconds, until = RANGES[seen.address.range], seen.span.end
    try:
        other_id = seen.address.other or seen.job_id
        until = _last(seen, seen.job_id, until)
        mine = side(seen.prometheus, seen.job_id, until, seconds)
        before = _last(seen, other_id, until) if seen.address.other else until - seconds
        other = side(seen.prometheus, other_id, before, seconds)
    except Unreachable as error:
        st.html(f'<p class="zmon-unknown" data-testid="zmon-compare">What differs: {UNKNOWN}, {marked(str(error))}</p>')
        return
    asked = "\n\n".join(f"{name}: {promql}" for name, promql in ASKED.items())
    panel.heading("What differs in a step?", "", asked, seen, seen.span)
    _table(mine, other)
    st.caption("Means over the time range. Whether a difference is more than chance: `zmon compare A B`.")


def _last(seen: Seen, job_id: str, until: int) -> int:
    """When there was something of it: a job that ended is compared as it was."""
    found = last_seen(seen.prometheus, job_id, until)
    if found is None:
        raise Unreachable(f"Prometheus has no zmon_job_info of {job_id} in the days before")
    return found


def _other(seen: Seen) -> None:
    try:
        known = jobs(seen.prometheus, seen.now.at)
    except Unreachable:
        known = []
    known = list(dict.fromkeys([*known, *filter(None, [seen.address.other])]))  # the one in the URL can be left again
    frame.chosen(
        "Compare with",
        [ITSELF, *(job_id for job_id in known if job_id != seen.job_id)],
        seen.address.other or ITSELF,
        lambda other: seen.address.moved(other=None if other == ITSELF else other),
    )


def _table(mine: Side, other: Side) -> None:
    rows = [
        ("ranks", count(other.ranks), count(mine.ranks), ""),
        ("efficiency", share(other.efficiency), share(mine.efficiency), ""),
        _row("samples/s", count, other.samples_per_second, mine.samples_per_second),
        _row("step", duration, other.step_seconds, mine.step_seconds),
    ]
    for cause in in_order([*{**other.causes, **mine.causes}]):
        if max(other.causes.get(cause, 0.0), mine.causes.get(cause, 0.0)) > 0:
            rows.append(_part(cause, mine, other))
    heads = (
        "",
        f"{other.job_id} until {moment(other.until)}",
        f"{mine.job_id} until {moment(mine.until)}",
        "difference",
    )
    body = "".join(f"<tr>{''.join(f'<td>{marked(cell)}</td>' for cell in row)}</tr>" for row in rows)
    st.html(
        f'<div class="zmon-table" data-testid="zmon-compare"><table><thead><tr>'
        f"{''.join(f'<th>{marked(head)}</th>' for head in heads)}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _row(what: str, words: Callable[[float | None], str], before: float | None, after: float | None) -> Row:
    by = f"{after / before - 1:+.1%}" if before and after is not None else ""
    return what, words(before), words(after), by


def _part(cause: str, mine: Side, other: Side) -> Row:
    """What a cause takes; a side of which causes are known, and not this one, spent no time on it."""
    what = f"of the clock: {cause}"
    before = other.causes.get(cause, 0.0) if other.causes else None
    after = mine.causes.get(cause, 0.0) if mine.causes else None
    if before is None or after is None:
        return what, duration(before), duration(after), ""
    sign = "+" if after >= before else "−"
    return what, duration(before), duration(after), f"{sign}{duration(abs(after - before))}"
