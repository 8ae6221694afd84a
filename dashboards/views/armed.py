"""The page Armed: the results of `zmon doctor`, which show whether detectors, rules and alert routes work."""

from collections import Counter
from collections.abc import Iterable, Sequence

import streamlit as st

from dashboards.armed import run_checks
from dashboards.colours import GREEN, GREY, VERMILLION
from dashboards.http_requests import without_credentials
from dashboards.markup import escaped_html, row_html, table_html
from dashboards.views import banner, frame
from dashboards.views.context import ViewContext
from zmon.doctor import Check
from zmon.format import listed

ORDER = (False, True, None)
LOOKS = {True: ("armed", GREEN), False: ("INERT", VERMILLION), None: ("absent", GREY)}


def show(context: ViewContext) -> None:
    """Draw the page; inert checks come first."""
    frame.live(banner.line, context)
    st.markdown("#### Would a fault be detected and paged?")
    checks = sorted(run_checks(context.hub.url, context.prometheus.url), key=lambda check: ORDER.index(check.armed))
    st.html(f'<p data-testid="zmon-armed-sum"><b>{summary(checks)}</b></p>')
    st.html(table_html("zmon-armed", ("", "", "check", "result", "do this next"), map(_row, group_checks(checks))))
    st.caption("Run `zmon doctor` on a node to check its boxes and sources too.")


def summary(checks: Sequence[Check]) -> str:
    """Return how many checks are inert; if none is, how many are armed."""
    counts = Counter(check.armed for check in checks)
    if counts[False]:
        return f"{counts[False]} of {len(checks)} checks are inert."
    if counts[None]:
        return f"No check is inert: {counts[True]} armed, {counts[None]} absent (nothing to watch, or not known yet)."
    return "All checks are armed."


def group_checks(checks: Iterable[Check]) -> list[list[Check]]:
    """Return groups of checks with the same next step, which have one cause; without a step, with the same result."""
    groups: dict[tuple[bool | None, str], list[Check]] = {}
    for check in checks:
        groups.setdefault((check.armed, check.next_step or check.result), []).append(check)
    return list(groups.values())


def _row(group: list[Check]) -> str:
    """Return a row with the names and results of a group of checks, and their common next step."""
    word, tint = LOOKS[group[0].armed]
    results = list(dict.fromkeys(without_credentials(check.result) for check in group))
    if len(results) > 1:
        results = [f"{check.name}: {without_credentials(check.result)}" for check in group]
    count = f"{len(group)} checks: " if len(group) > 1 else ""
    names = count + listed([check.name for check in group], len(group))
    cells = (word, names, "\n".join(results), without_credentials(group[0].next_step))
    return row_html(map(escaped_html, cells), tint)
