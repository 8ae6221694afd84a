"""Lines that hide each other are drawn as one line, which says how many ranks, hosts or GPUs it stands for."""

import re
from collections.abc import Set

import numpy as np
import pandas as pd

from dashboards.history import FRAME, grid
from dashboards.panels import Panel

# Nearer than the thickness of a line, 2 of the 230 pixels of a chart: then only the last line would be seen.
HIDDEN = 2 / 230
_DETAIL = {  # by noun: what equal series have in common, behind the rank or host
    "ranks": re.compile(r"rank \d+(.*)"),
    "hosts": re.compile(r"\S+(.*)"),
    **dict.fromkeys(("GPUs", "interfaces", "directions"), re.compile(r".*()")),
}


def merge_equal(panel: Panel, values: pd.DataFrame, apart: Set[str] = frozenset()) -> pd.DataFrame:
    """Return the FRAME with one series in place of equal series, such as `4 ranks, equal`.

    Series that end at different times are not equal. The series in `apart` are never joined to others.
    """
    names, rows = grid(values)
    if not panel.noun or len(names) < 2:
        return values
    largest = float(np.nanmax(np.abs(rows), initial=0.0))
    groups: list[tuple[str, list[int]]] = []  # the detail of their names, and indices of series
    for index, name in enumerate(names):
        detail = _detail(panel.noun, name)
        equal = [
            group
            for its_detail, group in groups
            if its_detail == detail
            and apart.isdisjoint((name, names[group[0]]))
            and _is_hidden(rows[group[0]], rows[index], largest)
        ]
        if equal:
            equal[0].append(index)
        else:
            groups.append((detail, [index]))
    if len(groups) == len(names):
        return values
    times = values["time"].iloc[: rows.shape[1]]
    parts = [
        pd.DataFrame({"time": times, "series": _name(panel.noun, detail, group, names), "value": rows[group[0]]})
        for detail, group in groups
    ]
    return pd.concat(parts, ignore_index=True)[FRAME]


def _detail(noun: str, name: str) -> str:
    match = _DETAIL[noun].fullmatch(name)
    return match[1] if match else name


def _is_hidden(one: np.ndarray, other: np.ndarray, largest: float) -> bool:
    are_known = ~np.isnan(one)
    if (are_known != ~np.isnan(other)).any():
        return False
    return bool((np.abs(one - other)[are_known] <= HIDDEN * largest).all())


def _name(noun: str, detail: str, group: list[int], names: list[str]) -> str:
    return names[group[0]] if len(group) == 1 else f"{len(group)} {noun}{detail}, equal"
