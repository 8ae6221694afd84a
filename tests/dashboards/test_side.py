"""Tests of one side of a comparison, with a real promtool: a job that has ended has no series any more."""

import pytest

from dashboards.side import LAST_TIME, RANKS
from tests.dashboards.promtool import complaints_about_answers

ENDED = {'zmon_job_info{job_id="ads", world_size="4"}': "1x320 stale"}  # the last sample at 640 s
LAST_MINUTE = 600
SHRUNK = {
    'zmon_job_info{job_id="ads", world_size="8"}': "1x290 stale",
    'zmon_job_info{job_id="ads", world_size="6"}': "_x290 1x100",
}
CASES = {
    "a job that ended has the ranks of its last time": (
        ENDED, {(LAST_TIME, 1800): {"{}": LAST_MINUTE}, (RANKS, LAST_MINUTE + 59): {'{world_size="4"}': 1}}
    ),
    "a job that has just shrunk has its new ranks": (SHRUNK, {(RANKS, 620): {'{world_size="6"}': 1}}),
}  # fmt: skip


@pytest.mark.parametrize(("series", "expected"), CASES.values(), ids=CASES)
def test_queries_of_a_side_have_the_last_time_and_the_ranks_of_a_job(tmp_path, series, expected):
    answers = {(promql.replace("$job", '"ads"'), now): values for (promql, now), values in expected.items()}
    assert complaints_about_answers(tmp_path, series, answers) == ""
