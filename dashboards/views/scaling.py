"""How does the job scale: what was recorded at each size, what would others be like, and what if links were faster?"""

from collections.abc import Mapping

import streamlit as st

from dashboards import curves
from dashboards.address import Address
from dashboards.asking import Unreachable
from dashboards.panels import scaling as panels
from dashboards.predictions import efficiency_ratio, predicted, why_unknown
from dashboards.views import banner, frame, panel
from dashboards.views.seen import Seen
from dashboards.words import UNKNOWN, count, duration, marked, plain, share
from zmon.schema.api import ScalingAnswer, StepAnswer

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
        scaling = seen.hub.scaling(seen.job_id)
        what_ifs = _what_ifs(scaling.what_ifs, seen.address) if scaling.sizes else ()
        if what_ifs:
            scaling = seen.hub.scaling(seen.job_id, what_ifs)
    except Unreachable as error:
        panel.unknown("curve", f"{OTHERS}{error}")
        return
    if not scaling.points and not scaling.now:
        panel.unknown("curve", OTHERS + scaling.unknown)
        return
    _curve(scaling, what_ifs)
    if scaling.unknown:
        panel.unknown("curve", OTHERS + scaling.unknown)
        return
    _parts(scaling)
    _table(scaling, what_ifs)


def _what_ifs(known: Mapping[str, str], address: Address) -> tuple[str, ...]:
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


def _curve(scaling: ScalingAnswer, what_ifs: tuple[str, ...]) -> None:
    st.markdown("**How many samples would more ranks train on?** samples/s")
    st.vega_lite_chart(curves.samples(scaling, ", ".join(what_ifs)), curves.SAMPLES, key="chart-curve")
    st.caption(
        f"Recorded of jobs named {plain(scaling.name)}; ideal is as many times the smallest size as there are ranks."
    )


def _parts(scaling: ScalingAnswer) -> None:
    table = curves.parts(scaling)
    if table.empty:
        return
    st.markdown("**Where would the time of a step go at each size?** seconds")
    st.vega_lite_chart(table, curves.parts_drawing(list(table["part"].unique())), key="chart-parts")


def _table(scaling: ScalingAnswer, what_ifs: tuple[str, ...]) -> None:
    heads = ["ranks", "samples a step", "step", "samples/s", "efficiency", *([", ".join(what_ifs)] if what_ifs else [])]
    rows = []
    for size in scaling.sizes:
        step = predicted(size.predicted)
        row = [
            count(size.ranks),
            count(size.samples),
            _seconds(size.predicted),
            count(step.samples_per_second if step else None),
            share(efficiency_ratio(size.efficiency)),
        ]
        rows.append([*row, *([_seconds(size.what_if)] if what_ifs else [])])
    body = "".join(f"<tr>{''.join(f'<td>{marked(cell)}</td>' for cell in row)}</tr>" for row in rows)
    st.html(
        f'<div class="zmon-table" data-testid="zmon-sizes"><table><thead><tr>'
        f"{''.join(f'<th>{marked(head)}</th>' for head in heads)}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _seconds(answer: StepAnswer | None) -> str:
    if answer is None:
        return ""
    step = predicted(answer)
    return duration(step.seconds) if step else f"{UNKNOWN}: {why_unknown(answer)}"
