"""Tests of the check of pooled sums: one line names the table and the samples of the first NaN."""

import pytest

LINE = "trainer: step 1: pooled sums of table {} are NaN or infinite on rank 0, in samples 0 to 31 of the global batch"
MANY_DIMS = {"embedding": {"dim": [4, 8, 4, 8, 4]}, "model": {"interaction": "cross"}}
CASES = {  # changes of the configuration, and the line on stderr
    "off": ({}, ""),
    "equal columns": ({"check": {"pooled": True}}, LINE.format(2)),
    "tables of several widths": ({"check": {"pooled": True}, **MANY_DIMS}, LINE.format(2)),
    "tables on every rank": ({"check": {"pooled": True}, "sharding": {"kind": "data_parallel"}}, LINE.format(2)),
}


@pytest.mark.parametrize(("changes", "line"), CASES.values(), ids=CASES)
def test_table_and_samples_of_the_first_nan_are_named_once(small_run, capsys, changes, line):
    run = small_run({"train": {"steps": 3, "stop_at_nan": False}}, changes)
    for part in run.state()["table.2.weight"].parts:
        part.tensor.fill_(float("nan"))
    run.train()
    assert capsys.readouterr().err == (line and f"{line}\n")


def test_finite_sums_are_not_mentioned(small_run, capsys):
    small_run({"train": {"steps": 3}, "check": {"pooled": True}}).train()
    assert capsys.readouterr().err == ""
