"""Tests of one side of a comparison, with a real promtool: a job that has ended has no series any more."""

import subprocess

import yaml

from dashboards.side import LAST_TIME, RANKS
from zmon.schema.scraping import duration_text

ENDED = {"series": 'zmon_job_info{job_id="ads", world_size="4"}', "values": "1x320 stale"}  # the last sample at 640 s
LAST_MINUTE = 600


def case(promql, seconds, labels, value):
    query = promql.replace("$job", '"ads"')
    sample = {"labels": labels, "value": value}
    return {"expr": query, "eval_time": duration_text(seconds), "exp_samples": [sample]}


def test_ranks_of_a_job_that_ended_are_known_at_its_last_time(tmp_path):
    last = case(LAST_TIME, 1800, "{}", LAST_MINUTE)
    ranks = case(RANKS, LAST_MINUTE + 59, '{world_size="4"}', 1)
    test = {"interval": "2s", "input_series": [ENDED], "promql_expr_test": [last, ranks]}
    (tmp_path / "test.yaml").write_text(yaml.safe_dump({"tests": [test]}))
    command = ["promtool", "test", "rules", tmp_path / "test.yaml"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
