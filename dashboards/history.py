"""Series over time with common times, for charts. An unknown value is NaN, and no line is drawn across a gap."""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from dashboards.address import Span
from dashboards.prometheus_answers import RangeSeries

FRAME = ["time", "series", "value"]  # the columns of the table that charts are drawn from


def grid(frame: pd.DataFrame) -> tuple[list[str], np.ndarray]:
    """Return the names of the series of a FRAME, and an array with a row of values for each, at the same times."""
    names = list(frame["series"].unique())
    return names, frame["value"].to_numpy().reshape(len(names), len(frame) // max(1, len(names)))


@dataclass(frozen=True)
class History:
    """A FRAME from the first known value to the end of the span."""

    table: pd.DataFrame
    known_until: float | None = None  # unix seconds; None: nothing is known
    nan_until: float | None = None  # unix seconds: the last time at which the value was NaN or infinite
    num_left_out: int = 0  # series beyond the limit


def history(
    series: Iterable[RangeSeries], legend: str, span: Span, max_series: int, *, keep_low: bool = False
) -> History:
    """Build a History from the answer to a range query. `legend` makes the name of a series from its labels.

    If there are more than `max_series`, those with the highest maximum remain, or with `keep_low` those with the lowest
    minimum.
    """
    columns, nan_until = _columns(series, legend, span)
    if not columns:
        return History(pd.DataFrame(columns=FRAME), nan_until=nan_until)
    selected = sorted(columns, key=lambda name: _sort_key(columns[name], keep_low))[:max_series]
    selected.sort(key=_natural)
    table = np.column_stack([columns[name] for name in selected])
    known_rows = np.flatnonzero(~np.isnan(table).all(axis=1))
    first = known_rows[0]
    times = span.start + span.resolution * np.arange(first, len(table))
    frame = pd.DataFrame(table[first:], columns=selected)
    frame.insert(0, "time", pd.to_datetime(times, unit="s", utc=True))
    return History(
        frame.melt(id_vars="time", var_name="series", value_name="value"),
        known_until=float(span.start + span.resolution * known_rows[-1]),
        nan_until=nan_until,
        num_left_out=len(columns) - len(selected),
    )


def _columns(series: Iterable[RangeSeries], legend: str, span: Span) -> tuple[dict[str, np.ndarray], float | None]:
    """Return the values of each series at all times of the span, by its name, and the last time of one not finite.

    A value that is not known or not finite is NaN. Series without any other value are left out.
    """
    length = (span.end - span.start) // span.resolution + 1
    columns: dict[str, np.ndarray] = {}
    nan_until: float | None = None
    for answer in series:
        times = np.array([time for time, _ in answer.values], dtype=float)
        values = np.array([value for _, value in answer.values], dtype=float)
        indices = np.rint((times - span.start) / span.resolution).astype(int)
        is_within = (indices >= 0) & (indices < length)
        not_finite = indices[is_within & ~np.isfinite(values)]
        if not_finite.size:
            nan_until = max(nan_until or 0.0, float(span.start + span.resolution * not_finite[-1]))
        is_known = np.isfinite(values) & is_within
        name = legend.format_map(defaultdict(lambda: "?", answer.metric))
        column = columns.setdefault(name, np.full(length, np.nan))
        column[indices[is_known]] = values[is_known]
    return {name: column for name, column in columns.items() if not np.isnan(column).all()}, nan_until


def _sort_key(column: np.ndarray, keep_low: bool) -> float:
    return float(np.nanmin(column)) if keep_low else -float(np.nanmax(column))


def _natural(name: str) -> list[int | str]:
    """Return a sort key by which rank 10 comes after rank 2."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]
