"""Tests of one side of a comparison, with a real promtool: a job that has ended has no series any more."""

import subprocess

import pytest
import yaml

from dashboards.side import LAST_TIME, RANKS
from zmon.schema.scraping import duration_text

ENDED = {"series": 'zmon_job_info{job_id="ads", world_size="4"}', "values": "1x320 stale"}  # the last sample at 640 s
LAST_MINUTE = 600
SHRUNK = [
    {"series": 'zmon_job_info{job_id="ads", world_size="8"}', "values": "1x290 stale"},
    {"series": 'zmon_job_info{job_id="ads", world_size="6"}', "values": "_x290 1x100"},
]


def case(promql, seconds, labels, value):
    """Return the test of promtool that a query has this result at a time."""
    query = promql.replace("$job", '"ads"')
    sample = {"labels": labels, "value": value}
    return {"expr": query, "eval_time": duration_text(seconds), "exp_samples": [sample]}


CASES = {
    "a job that ended has the ranks of its last time": ([ENDED], [
        case(LAST_TIME, 1800, "{}", LAST_MINUTE), case(RANKS, LAST_MINUTE + 59, '{world_size="4"}', 1)
    ]),
    "a job that has just shrunk has its new ranks": (SHRUNK, [case(RANKS, 620, '{world_size="6"}', 1)]),
}  # fmt: skip


@pytest.mark.parametrize(("series", "expected"), CASES.values(), ids=CASES)
def test_queries_of_a_side_have_the_last_time_and_the_ranks_of_a_job(tmp_path, series, expected):
    test = {"interval": "2s", "input_series": series, "promql_expr_test": expected}
    (tmp_path / "test.yaml").write_text(yaml.safe_dump({"tests": [test]}))
    command = ["promtool", "test", "rules", tmp_path / "test.yaml"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
