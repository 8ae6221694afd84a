"""Would anybody notice, and be told? What doctor says: detectors, rules and routes are armed, or silently inert."""

import streamlit as st

from dashboards.armed import armed
from dashboards.asking import shown
from dashboards.colours import GREEN, GREY, VERMILLION
from dashboards.views import banner, frame
from dashboards.views.seen import Seen
from dashboards.words import marked

ORDER = (False, True, None)
LOOKS = {True: ("armed", GREEN), False: ("INERT", VERMILLION), None: ("nothing to watch", GREY)}


def show(seen: Seen) -> None:
    """What is inert first."""
    frame.live(banner.line, seen)
    st.markdown("#### Would anybody notice, and be told?")
    checks = sorted(armed(seen.hub.url, seen.prometheus.url), key=lambda check: ORDER.index(check.armed))
    inert = sum(check.armed is False for check in checks)
    said = f"{inert} of {len(checks)} checks found what would stay silent." if inert else "All of it is armed."
    st.html(f'<p data-testid="zmon-armed-sum"><b>{said}</b></p>')
    rows = []
    for check in checks:
        word, tint = LOOKS[check.armed]
        cells = (word, check.name, shown(check.result), shown(check.next_step))
        rows.append(f'<tr><td style="--tint:{tint}"></td>{"".join(f"<td>{marked(cell)}</td>" for cell in cells)}</tr>')
    heads = "".join(f"<th>{head}</th>" for head in ("", "", "what", "found", "do this next"))
    st.html(
        f'<div class="zmon-table" data-testid="zmon-armed"><table><thead><tr>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )
    st.caption("What only a node can tell, boxes and sources, is what `zmon doctor` tells there.")
