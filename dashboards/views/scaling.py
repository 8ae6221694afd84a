"""How does the job scale: what was recorded at each size, what would others be like, and what if links were faster?"""

from collections.abc import Callable

import streamlit as st

from dashboards import curves
from dashboards.address import Address
from dashboards.asking import Answer, Unreachable
from dashboards.panels import scaling as panels
from dashboards.views import banner, frame, panel
from dashboards.views.seen import Seen
from dashboards.words import UNKNOWN, count, duration, marked, plain, share

FACTORS = (0.25, 0.5, 0.75, 1, 1.25, 1.5, 2, 3, 4, 8)
AS_IT_IS = 1
OTHERS = f"Other sizes: {UNKNOWN}, "


def show(seen: Seen) -> None:
    """Efficiency over time, then the curve and what would change it."""
    frame.live(banner.line, seen)
    frame.choices(seen)
    if not seen.job_id:
        return
    panel.grid(panels.PANELS, seen)
    try:
        told = seen.hub.scaling(seen.job_id)
        what_ifs = _what_ifs(told["what_ifs"], seen.address) if told["sizes"] else ()
        if what_ifs:
            told = seen.hub.scaling(seen.job_id, what_if=what_ifs)
    except Unreachable as error:
        panel.unknown("curve", f"{OTHERS}{error}")
        return
    if not told["points"] and not told["now"]:
        panel.unknown("curve", OTHERS + told["unknown"])
        return
    _curve(told, what_ifs)
    if told["unknown"]:
        panel.unknown("curve", OTHERS + told["unknown"])
        return
    _parts(told)
    _table(told, what_ifs)


def _what_ifs(known: dict[str, str], address: Address) -> tuple[str, ...]:
    """A slider for each thing that may be changed, set as the URL says; what is as it is asks for nothing."""
    factors = {
        what: factor for what, factor in address.what_if if what in known and factor in FACTORS and factor != AS_IT_IS
    }

    def moved(what: str, slider: str) -> None:
        changed = {**factors, what: st.session_state[slider]}
        frame.go(address.moved(what_if=tuple((what, by) for what, by in changed.items() if by != AS_IT_IS)))

    with st.expander("What if …?", expanded=True):
        for column, (what, says) in zip(st.columns(len(known)), known.items(), strict=True):
            factor = factors.get(what, AS_IT_IS)
            slider = f"what-if {what}: {factor:g}"  # has the factor in it: a link that changes it moves the slider
            column.select_slider(
                f"{what}: {says}",
                FACTORS,
                value=factor,
                key=slider,
                format_func=lambda n: f"{n:g}",
                on_change=moved,
                args=(what, slider),
            )
    return tuple(f"{what}={factor:g}" for what, factor in factors.items())


def _curve(told: Answer, what_ifs: tuple[str, ...]) -> None:
    st.markdown("**How many samples would more ranks train on?** samples/s")
    st.vega_lite_chart(curves.samples(told, ", ".join(what_ifs)), curves.SAMPLES, key="chart-curve")
    st.caption(
        f"Recorded of jobs named {plain(told['name'])}; ideal is as many times the smallest size as there are ranks."
    )


def _parts(told: Answer) -> None:
    table = curves.parts(told)
    if table.empty:
        return
    st.markdown("**Where would the time of a step go at each size?** seconds")
    st.vega_lite_chart(table, curves.parts_drawing(list(table["part"].unique())), key="chart-parts")


def _table(told: Answer, what_ifs: tuple[str, ...]) -> None:
    heads = ["ranks", "samples a step", "step", "samples/s", "efficiency", *([", ".join(what_ifs)] if what_ifs else [])]
    rows = []
    for size in told["sizes"]:
        step, other = size["predicted"], size["what_if"]
        row = [
            count(size["ranks"]),
            count(size["samples"]),
            _said(step, duration, "seconds"),
            count(step.get("samples_per_second")),
            share(size["efficiency"].get("ratio")),
        ]
        rows.append([*row, *([_said(other, duration, "seconds")] if what_ifs else [])])
    body = "".join(f"<tr>{''.join(f'<td>{marked(cell)}</td>' for cell in row)}</tr>" for row in rows)
    st.html(
        f'<div class="zmon-table" data-testid="zmon-sizes"><table><thead><tr>'
        f"{''.join(f'<th>{marked(head)}</th>' for head in heads)}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _said(found: Answer | None, words: Callable[[float | None], str], name: str) -> str:
    if not found:
        return ""
    return f"{UNKNOWN}: {found['unknown']}" if "unknown" in found else words(found[name])
