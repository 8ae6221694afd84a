"""Tests of the history that the Prometheus of a replay has from its start: the OpenMetrics page and the blocks."""

import shutil

import pytest

from zmon.stack.replay import PastSeries, load, names
from zmon.stack.replay.stack import DATES_SUFFIX, openmetrics, write_history

STEPS = PastSeries(
    {"__name__": "zmon_steps_total", "instance": "node-0", "job_id": 'a"b'},
    [(1000.0, 5.0), (1004.0, 7.0), (1008.0, 9.0)],
)
STEPPED = PastSeries({"__name__": "zmon_last_step_timestamp_seconds"}, [(1000.0, 999.5)])
RECORDED = PastSeries({"__name__": "zmon:job_step_seconds:median", "job_id": "a"}, [(1000.0, float("nan"))])
SHIFT_SECONDS = 500.0  # from the recording to its replay
INSTANCES = {"node-0": "127.0.0.1:9780", "hub": "127.0.0.1:9790"}


def test_history_has_new_times_and_addresses_and_no_later_values():
    assert [*openmetrics([STEPS, RECORDED], SHIFT_SECONDS, until=1504.0, instances=INSTANCES)] == [
        'zmon_steps_total{instance="127.0.0.1:9780",job_id="a\\"b"} 5.0 1500.000\n',
        'zmon_steps_total{instance="127.0.0.1:9780",job_id="a\\"b"} 7.0 1504.000\n',
        'zmon:job_step_seconds:median{job_id="a"} nan 1500.000\n',
        "# EOF\n",
    ]


def test_values_that_are_dates_move_as_well():
    line, _ = openmetrics([STEPPED], SHIFT_SECONDS, until=1504.0, instances={})
    assert line == "zmon_last_step_timestamp_seconds{} 1499.5 1500.000\n"


@pytest.mark.parametrize("name", names())
def test_names_of_all_dates_end_alike(name):
    began = load(name).began
    dates = {
        series.labels["__name__"]
        for series in load(name).history
        if any(abs(value - began) < 30 * 86400 for _, value in series.points)
    }
    assert [date for date in dates if not date.endswith(DATES_SUFFIX)] == []


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_blocks_are_written_where_prometheus_reads_them(tmp_path):
    (tmp_path / "prometheus").mkdir()
    write_history([STEPS, RECORDED], SHIFT_SECONDS, 2000.0, INSTANCES, tmp_path / "prometheus")
    (block,) = (tmp_path / "prometheus").iterdir()
    assert {"meta.json", "index", "chunks"} <= {path.name for path in block.iterdir()}
    assert [path.name for path in tmp_path.iterdir()] == ["prometheus"]


def test_promtool_that_hangs_leaves_no_history(tmp_path, monkeypatch):
    promtool = tmp_path / "promtool"
    promtool.write_text("#!/bin/sh\nexec sleep 60\n")
    promtool.chmod(0o700)
    monkeypatch.setattr("zmon.stack.replay.stack.find_program", lambda _: str(promtool))
    monkeypatch.setattr("zmon.stack.replay.stack._WRITE_TIMEOUT_SECONDS", 0.2)
    write_history([STEPS], SHIFT_SECONDS, 2000.0, INSTANCES, tmp_path / "prometheus")
    assert [path.name for path in tmp_path.iterdir()] == ["promtool"]
