"""Tests of lines that hide each other: which are drawn as one, and its name."""

import pandas as pd
import pytest

from dashboards import alike
from dashboards.history import FRAME
from dashboards.panels import ALL
from dashboards.panels.communication import ALL_TO_ALL, NIC, SENT, WIRE
from dashboards.panels.hardware import CPU, PRESSURE, UTILIZATION
from dashboards.panels.ranks import MEMORY

NAN = float("nan")
TIMES = pd.to_datetime([0, 10, 20], unit="s", utc=True)


def frame(**rows: list[float]) -> pd.DataFrame:
    table = pd.DataFrame({"time": TIMES, **rows})
    return table.melt(id_vars="time", var_name="series", value_name="value")[FRAME]


def names(panel, rows, unmerged=frozenset()):
    return list(alike.merge_equal(panel, frame(**rows), unmerged)["series"].unique())


RANKS = {f"rank {rank}": [5.0, 6.0, 7.0] for rank in range(4)}


@pytest.mark.parametrize(
    ("panel", "rows", "merged"),
    [
        (ALL_TO_ALL, RANKS, ["4 ranks, equal"]),
        (ALL_TO_ALL, RANKS | {"rank 2": [5.0, 6.0, 8.0]}, ["3 ranks, equal", "rank 2"]),
        (ALL_TO_ALL, RANKS | {"rank 3": [5.0, 6.0, 7.01]}, ["4 ranks, equal"]),  # nearer than a line is thick
        (ALL_TO_ALL, RANKS | {"rank 3": [5.0, 6.0, NAN]}, ["3 ranks, equal", "rank 3"]),  # it ended earlier
        (ALL_TO_ALL, {"rank 0": [5.0, 6.0, 7.0]}, ["rank 0"]),
        (ALL_TO_ALL, {"rank 0": [0.0, 0.0, 0.0], "rank 1": [0.0, 0.0, 0.0]}, ["2 ranks, equal"]),
        (MEMORY, {f"rank {rank} ({kind})": [5.0] * 3 for rank in range(2) for kind in ("process", "used")},
         ["2 ranks (process), equal", "2 ranks (used), equal"]),
        (CPU, {"node-1": [0.5, 0.5, 0.5], "node-2": [0.5, 0.5, 0.5]}, ["2 hosts, equal"]),
        (NIC, {"node-1 eth0": [5.0] * 3, "node-1 ib0": [0.0] * 3, "node-2 ib0": [0.0] * 3},
         ["node-1 eth0", "2 interfaces, equal"]),
        (PRESSURE, {f"node-{host} {resource}": [0.1] * 3 for host in (1, 2) for resource in ("cpu", "io")},
         ["2 hosts cpu, equal", "2 hosts io, equal"]),
        (WIRE, {"received": [5.0] * 3, "sent": [5.0] * 3}, ["2 directions, equal"]),
        (UTILIZATION, {f"node-1 GPU {gpu}": [0.5] * 3 for gpu in range(8)}, ["8 GPUs, equal"]),
        (SENT, {"all_to_all": [5.0] * 3, "all_reduce": [5.0] * 3}, ["all_to_all", "all_reduce"]),  # no noun
    ],
)  # fmt: skip
def test_equal_lines_are_drawn_as_one(panel, rows, merged):
    assert names(panel, rows) == merged


def test_line_of_a_culprit_stays_alone():
    assert names(ALL_TO_ALL, RANKS, {"rank 0"}) == ["rank 0", "3 ranks, equal"]
    assert names(ALL_TO_ALL, RANKS, {"rank 2"}) == ["3 ranks, equal", "rank 2"]


def test_merged_line_has_the_values_of_its_first_series():
    table = alike.merge_equal(ALL_TO_ALL, frame(**RANKS))
    assert table["value"].tolist() == [5.0, 6.0, 7.0]
    assert table["time"].tolist() == list(TIMES)


@pytest.mark.parametrize("panel", [panel for panel in ALL if panel.grows_with], ids=lambda panel: panel.key)
def test_lines_of_ranks_and_hosts_are_drawn_as_one_if_no_line_names_a_fault(panel):
    is_of_faults = panel.key in ("gpu_throttled", "link_errors")
    assert bool(panel.line_noun) is (panel.shape == "lines" and not is_of_faults)
