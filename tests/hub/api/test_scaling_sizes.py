"""Tests of the sizes that the scaling endpoint predicts: defaults from the job, and requests that are invalid."""

import pytest

from tests.build import JOB
from tests.hub.api.scaling_answers import ONE_HOST, answer, sizes
from tests.hub.step_windows import job, step_window
from tests.scaling.test_fit import point
from zmon.errors import UsageError


def ranks(store, query=""):
    return [size["ranks"] for size in sizes(store, query)]


# -- default sizes


def test_default_sizes_end_at_eight_times_the_job(store):
    store.record(JOB, point(3, 1536), point(6, 3072), point(6, 1536))
    assert ranks(store) == [3, 4, 6, 8, 16, 32]


def test_smallest_default_sizes_are_left_out_beyond_the_limit(store):
    store.record(JOB, *(point(ranks, 512 * ranks) for ranks in range(1, 40)))
    assert ranks(store) == [4, *range(17, 40)]


def test_samples_per_rank_are_from_the_last_window_during_evaluation(store):
    store.record(JOB, *ONE_HOST)
    evaluates = job(now=step_window(samples=128), activity="eval")
    scaling = answer(store, evaluates, "ranks=2")
    assert (scaling["now"], scaling["sizes"][0]["samples"]) == (None, 64)


@pytest.mark.parametrize("job_", [job(), job(now=step_window(samples=None))])
def test_samples_per_rank_are_from_the_smallest_size_without_reports(store, job_):
    store.record(JOB, *ONE_HOST)
    scaling = answer(store, job_, "ranks=2")
    assert (scaling["now"], scaling["sizes"][0]["samples"]) == (None, 1024)


# -- invalid requests


@pytest.mark.parametrize(
    ("query", "error"),
    [
        ("ranks=4,four", "not a list of sizes"),
        ("ranks=" + ",".join(map(str, range(1, 66))), "65 sizes: an answer has at most 64"),
        ("batch=", "is not a number of samples"),
        ("batch=0", "is not a number of samples"),
        ("batch=1e3", "is not a number of samples"),
        ("batch_per_rank=-1", "is not a number of samples"),
        ("batch_per_rank=99999999999", "from 1 to 2"),
        ("batch=8&batch_per_rank=2", "contradict each other"),
        ("what_if=own=2&what_if=gpu=2", "--what-if gpu=2 is not valid"),
    ],
)
def test_invalid_query_is_refused(store, query, error):
    with pytest.raises(UsageError, match=error):
        answer(store, job(), query)


def test_largest_allowed_number_of_sizes_is_answered(store):
    store.record(JOB, *ONE_HOST)
    assert len(ranks(store, "ranks=" + ",".join(map(str, range(1, 65))))) == 64
