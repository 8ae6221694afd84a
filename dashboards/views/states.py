"""The number of ranks in each state, as a bar and in words."""

from collections import Counter
from collections.abc import Mapping
from html import escape

from dashboards.colours import ACTIVITIES, GREEN, GREY, STATES
from zmon.schema.api import RankSummary

ACTIVITY_WORDS = {
    "init": "starting",
    "train": "training",
    "eval": "evaluating",
    "checkpoint": "checkpointing",
    "compile": "compiling",
    "loader_start": "starting its loader",
    "done": "done",
}
MIN_SHARE = 0.006  # of the bar: one rank of 16,384 is still visible


def html(summary: RankSummary, *, blind: bool) -> str:
    """Return HTML with the bar, the most urgent state first. Training is green only if the page is not blind."""
    numbers = Counter(summary.by_state)
    numbers.update(unwatched=summary.num_missing)
    numbers = +numbers  # leaves out states without ranks
    order = sorted(numbers, key=lambda state: list(STATES).index(state) if state in STATES else len(STATES))
    colours = {state: STATES.get(state) or (GREY if blind else ACTIVITIES.get(state, GREEN)) for state in order}
    total = sum(numbers.values())
    words = " · ".join(f"<b>{numbers[state]:,}</b> {escape(ACTIVITY_WORDS.get(state, state))}" for state in order)
    return (
        f'<div class="zmon-states" data-testid="zmon-states"><p>{total:,} ranks: {words}</p>'
        f'<i style="background:linear-gradient(90deg,{_stops(numbers, order, colours)})"></i></div>'
    )


def _stops(numbers: Mapping[str, int], order: list[str], colours: Mapping[str, str]) -> str:
    """Return the CSS gradient of the bar: a colour for each state, from its beginning to its end in percent."""
    total = max(1, sum(numbers.values()))
    widths = [max(MIN_SHARE, numbers[state] / total) for state in order]
    stops = []
    begin = 0.0
    for state, width in zip(order, widths, strict=True):
        end = begin + 100 * width / sum(widths)
        stops.append(f"{colours[state]} {begin:.4g}% {end:.4g}%")
        begin = end
    return ",".join(stops) or f"{GREY} 0% 100%"
