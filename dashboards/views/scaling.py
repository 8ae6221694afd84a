"""The page Scaling: efficiency, recorded and predicted steps at each size, and what-ifs."""

from collections.abc import Mapping

import streamlit as st

from dashboards import curves
from dashboards.address import Address
from dashboards.formats import efficiency, number
from dashboards.http_requests import Unreachable
from dashboards.markup import escaped_html, escaped_markdown, row_html, table_html
from dashboards.panels import scaling as panels
from dashboards.views import banner, frame, panel
from dashboards.views.context import ViewContext
from zmon.format import UNKNOWN, duration
from zmon.schema.api import ScalingAnswer, StepAnswer

FACTORS = (0.25, 0.5, 0.75, 1, 1.25, 1.5, 2, 3, 4, 8)
UNCHANGED = 1
NO_PREDICTION = f"Other sizes: {UNKNOWN}, "


def show(context: ViewContext) -> None:
    """Draw the page: efficiency over time, then the curve and the what-ifs."""
    frame.live(banner.line, context)
    frame.choices(context)
    if not context.job_id:
        return
    panel.grid(panels.PANELS, context)
    try:
        scaling = context.hub.scaling(context.job_id)
        what_ifs = _what_ifs(scaling.what_ifs, context.address) if scaling.sizes else ()
        if what_ifs:
            scaling = context.hub.scaling(context.job_id, what_ifs)
    except Unreachable as error:
        panel.unknown("curve", f"{NO_PREDICTION}{error}")
        return
    if not scaling.points and not scaling.now:
        panel.unknown("curve", NO_PREDICTION + scaling.unknown)
        return
    _curve(scaling, what_ifs)
    if scaling.unknown:
        panel.unknown("curve", NO_PREDICTION + scaling.unknown)
        return
    _parts(scaling)
    _table(scaling, what_ifs)


def _what_ifs(descriptions: Mapping[str, str], address: Address) -> tuple[str, ...]:
    """Draw a slider for each factor, set from the URL. Return the factors that differ from 1, such as `net=2`."""
    factors = {
        name: factor
        for name, factor in address.what_if
        if name in descriptions and factor in FACTORS and factor != UNCHANGED
    }

    def on_change(name: str, slider: str) -> None:
        changed = {**factors, name: st.session_state[slider]}
        frame.go(address.moved(what_if=tuple(item for item in changed.items() if item[1] != UNCHANGED)))

    with st.expander("What if …?", expanded=True):
        for column, (name, description) in zip(st.columns(len(descriptions)), descriptions.items(), strict=True):
            factor = factors.get(name, UNCHANGED)
            slider = f"what-if {name}: {factor:g}"  # the key contains the factor, so that a link moves the slider
            column.select_slider(
                f"{name}: {description}",
                FACTORS,
                value=factor,
                key=slider,
                format_func=lambda option: f"{option:g}",
                on_change=on_change,
                args=(name, slider),
            )
    return tuple(f"{name}={factor:g}" for name, factor in factors.items())


def _curve(scaling: ScalingAnswer, what_ifs: tuple[str, ...]) -> None:
    st.markdown("**What throughput would more ranks have?** samples/s")
    st.vega_lite_chart(curves.samples(scaling, ", ".join(what_ifs)), curves.SAMPLES, key="chart-curve")
    recorded = f"Recorded for jobs named {escaped_markdown(scaling.name)}."
    st.caption(f"{recorded} Ideal: the throughput per rank of the smallest size.")


def _parts(scaling: ScalingAnswer) -> None:
    table = curves.parts(scaling)
    if table.empty:
        return
    st.markdown("**Where would the time of a step go at each size?** seconds")
    st.vega_lite_chart(table, curves.parts_specification(list(table["part"].unique())), key="chart-parts")


def _table(scaling: ScalingAnswer, what_ifs: tuple[str, ...]) -> None:
    heads = [
        "ranks",
        "samples per step",
        "step",
        "samples/s",
        "efficiency",
        *([", ".join(what_ifs)] if what_ifs else []),
    ]
    rows = []
    for size in scaling.sizes:
        predicted = size.predicted
        measured = curves.known(size.efficiency)
        row = [
            number(size.ranks),
            number(size.samples),
            _seconds(predicted),
            number(curves.known(predicted.samples_per_second)),
            efficiency(curves.known(measured.ratio) if measured else None),
        ]
        rows.append([*row, *([_seconds(size.what_if)] if what_ifs else [])])
    body = (row_html(map(escaped_html, row)) for row in rows)
    st.html(table_html("zmon-sizes", map(escaped_html, heads), body))


def _seconds(step: StepAnswer | None) -> str:
    """Return the duration of a predicted step, or the reason why it cannot be predicted."""
    if step is None:
        return ""
    seconds = curves.known(step.seconds)
    return f"{UNKNOWN}: {curves.known(step.unknown)}" if seconds is None else duration(seconds)
