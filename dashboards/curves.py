"""The charts of the page Scaling: recorded, predicted, ideal and what-if throughput, from the answer of the hub."""

from typing import TypeVar

import pandas as pd
from msgspec import UnsetType

from dashboards.charts import AXIS_LABEL
from dashboards.colours import BLUE, GREEN, GREY, ORANGE, SKY, category_colour, in_order
from zmon.format import duration
from zmon.schema.api import ScalingAnswer

HEIGHT_PIXELS = 300
KINDS = {"ideal": GREY, "predicted": BLUE, "recorded": SKY, "what if": ORANGE, "now": GREEN}
T = TypeVar("T")


def known(value: T | UnsetType) -> T | None:
    """Return a field of an answer; None if the hub left it out, because it does not know it."""
    return None if isinstance(value, UnsetType) else value


def samples(scaling: ScalingAnswer, what_if: str) -> pd.DataFrame:
    """Return the samples per second of all ranks by number of ranks. `what_if` is the label of the what-if line."""
    points, now = scaling.points, scaling.now
    rows = [("recorded", point.ranks, point.samples_per_second, "recorded") for point in points]
    if now:
        rows.append(("now", now.ranks, now.samples_per_second, "now"))
    for size in scaling.sizes:
        for kind, answer, label in (("predicted", size.predicted, "predicted"), ("what if", size.what_if, what_if)):
            if answer and (rate := known(answer.samples_per_second)):
                rows.append((kind, size.ranks, rate, label))
    if points:
        per_rank = points[0].samples_per_second / points[0].ranks
        rows += [("ideal", ranks, ranks * per_rank, "ideal") for ranks in sorted({row[1] for row in rows})]
    return pd.DataFrame(rows, columns=["kind", "ranks", "samples_per_second", "label"])


def parts(scaling: ScalingAnswer) -> pd.DataFrame:
    """Return the seconds of a predicted step by number of ranks and time category."""
    rows = [
        (size.ranks, part, seconds, duration(seconds))
        for size in scaling.sizes
        for part, seconds in (known(size.predicted.causes) or {}).items()
        if seconds > 0
    ]
    return pd.DataFrame(rows, columns=["ranks", "part", "seconds", "label"])


def parts_specification(names: list[str]) -> dict[str, object]:
    """Return the specification of the chart of `parts`, for these time categories."""
    order = in_order(names)
    return {
        "description": "Time categories of a predicted step at each size",
        "height": HEIGHT_PIXELS,
        "mark": {"type": "bar"},
        "encoding": {
            "x": {"field": "ranks", "type": "ordinal", "title": "ranks", "axis": {"labelAngle": 0}},
            "y": {
                "field": "seconds",
                "type": "quantitative",
                "title": None,
                "axis": {"labelExpr": AXIS_LABEL["seconds"]},
            },
            "color": {
                "field": "part",
                "type": "nominal",
                "scale": {"domain": order, "range": [category_colour(name) for name in order]},
                "legend": {"title": None, "orient": "bottom"},
            },
            "tooltip": [
                {"field": "ranks", "title": "ranks"},
                {"field": "part", "title": "time category"},
                {"field": "label", "title": "of a step"},
            ],
        },
    }


def _layer(kinds: tuple[str, ...], mark: dict[str, object]) -> dict[str, object]:
    return {
        "transform": [{"filter": {"field": "kind", "oneOf": list(kinds)}}],
        "mark": mark,
        "encoding": {
            "x": {"field": "ranks", "type": "quantitative", "scale": {"type": "log", "base": 2}, "title": "ranks"},
            "y": {
                "field": "samples_per_second",
                "type": "quantitative",
                "scale": {"type": "log"},
                "title": None,
                "axis": {"labelExpr": AXIS_LABEL["samples/s"]},
            },
            "color": {
                "field": "kind",
                "type": "nominal",
                "scale": {"domain": list(KINDS), "range": list(KINDS.values())},
                "legend": {"title": None, "orient": "bottom"},
            },
            "tooltip": [
                {"field": "label", "title": "line"},
                {"field": "ranks", "title": "ranks"},
                {"field": "samples_per_second", "title": "samples/s", "format": ".4~s"},
            ],
        },
    }


SAMPLES = {
    "description": "Samples per second by number of ranks",
    "height": HEIGHT_PIXELS,
    "layer": [
        _layer(("ideal", "predicted", "what if"), {"type": "line"}),
        _layer(("recorded", "now"), {"type": "point", "filled": True, "size": 90}),
    ],
}
