"""Tests of the table of ranks: durations have units, as in the banner."""

import pandas as pd
import pytest

from dashboards.views import rank_table


@pytest.mark.parametrize(
    ("seconds", "text"), [(17.5953, "18 s"), (0.0064, "6.4 ms"), (0.0, "0 ms"), (None, ""), (float("nan"), "")]
)
def test_durations_have_units(seconds, text):
    table = pd.DataFrame({"rank": [3], "self time": [seconds]})
    cells = rank_table._with_units(table).to_string(delimiter="|").splitlines()[1].split("|")
    assert cells[1:] == ["3", text]


def test_table_keeps_seconds_by_which_a_browser_sorts(open_page):
    (table,) = open_page("ranks", job_id="ads").dataframe
    assert list(table.value["self time"]) == [0.05, 0.05]


def test_table_without_ranks_stays_a_table():
    assert rank_table._with_units(pd.DataFrame()).empty
