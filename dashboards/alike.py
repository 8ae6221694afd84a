"""Merges lines that would hide each other into one line, whose name has the number of its ranks, hosts or GPUs."""

import re
from collections.abc import Set

import numpy as np
import pandas as pd

from dashboards.charts import HEIGHT_PIXELS
from dashboards.history import FRAME, grid
from dashboards.panels import Panel

# Of two lines that are nearer than the thickness of a line, 2 pixels, only the last one would be seen.
MAX_DISTANCE = 2 / HEIGHT_PIXELS
_DETAIL = {  # by noun: a pattern whose group is the part of a name after the rank or host
    "ranks": re.compile(r"rank \d+(.*)"),
    "hosts": re.compile(r"\S+(.*)"),
    **dict.fromkeys(("GPUs", "interfaces", "directions"), re.compile(r".*()")),
}


def merge_equal(panel: Panel, values: pd.DataFrame, unmerged: Set[str] = frozenset()) -> pd.DataFrame:
    """Return the FRAME with one series in place of equal series, such as `4 ranks, equal`.

    Series that end at different times are not equal. The series whose names are in `unmerged` are never merged.
    """
    names, rows = grid(values)
    noun = panel.line_noun
    if not noun or len(names) < 2:
        return values
    largest = float(np.nanmax(np.abs(rows), initial=0.0))

    def may_merge(first: int, second: int) -> bool:
        return (
            unmerged.isdisjoint((names[first], names[second]))
            and _detail(noun, names[first]) == _detail(noun, names[second])
            and _are_equal(rows[first], rows[second], largest)
        )

    groups: list[list[int]] = []  # indices of equal series
    for index in range(len(names)):
        group = next((group for group in groups if may_merge(group[0], index)), None)
        if group is None:
            groups.append([index])
        else:
            group.append(index)
    times = values["time"].iloc[: rows.shape[1]]
    merged = [
        pd.DataFrame({"time": times, "series": _name(noun, group, names), "value": rows[group[0]]}) for group in groups
    ]
    return pd.concat(merged, ignore_index=True)[FRAME]


def _detail(noun: str, name: str) -> str:
    """Return the part of a name that the series of a group have in common."""
    match = _DETAIL[noun].fullmatch(name)
    return match[1] if match else name


def _are_equal(left: np.ndarray, right: np.ndarray, largest: float) -> bool:
    """Return True if one line would hide the other. `largest` is the largest value on the chart."""
    are_known = ~np.isnan(left)
    if (are_known != ~np.isnan(right)).any():
        return False
    return bool((np.abs(left - right)[are_known] <= MAX_DISTANCE * largest).all())


def _name(noun: str, group: list[int], names: list[str]) -> str:
    """Return the name of the line of a group: that of its only series, or the number of its series."""
    first = names[group[0]]
    return first if len(group) == 1 else f"{len(group)} {noun}{_detail(noun, first)}, equal"
