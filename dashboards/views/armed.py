"""The page Armed: the results of `zmon doctor`. They tell which detectors, rules and routes work."""

import streamlit as st

from dashboards.armed import armed
from dashboards.asking import without_credentials
from dashboards.colours import GREEN, GREY, VERMILLION
from dashboards.formats import escaped_html
from dashboards.views import banner, frame
from dashboards.views.context import ViewContext

ORDER = (False, True, None)
LOOKS = {True: ("armed", GREEN), False: ("INERT", VERMILLION), None: ("nothing to watch", GREY)}


def show(context: ViewContext) -> None:
    """Draw the page; inert checks come first."""
    frame.live(banner.line, context)
    st.markdown("#### Would a fault be detected and paged?")
    checks = sorted(armed(context.hub.url, context.prometheus.url), key=lambda check: ORDER.index(check.armed))
    inert = sum(check.armed is False for check in checks)
    summary = f"{inert} of {len(checks)} checks are inert." if inert else "All checks are armed."
    st.html(f'<p data-testid="zmon-armed-sum"><b>{summary}</b></p>')
    rows = []
    for check in checks:
        word, tint = LOOKS[check.armed]
        cells = (word, check.name, without_credentials(check.result), without_credentials(check.next_step))
        rows.append(
            f'<tr><td style="--tint:{tint}"></td>{"".join(f"<td>{escaped_html(cell)}</td>" for cell in cells)}</tr>'
        )
    heads = "".join(f"<th>{head}</th>" for head in ("", "", "check", "result", "do this next"))
    st.html(
        f'<div class="zmon-table" data-testid="zmon-armed"><table><thead><tr>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )
    st.caption("Run `zmon doctor` on a node to check its boxes and sources too.")
