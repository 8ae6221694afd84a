"""Tests of shards: each job is in exactly one of them, on every host and in every version."""

import pytest

from zmon.schema.shard import Shard, parse


def test_each_job_is_in_one_shard():
    shards = [parse(f"{index}/4") for index in range(4)]
    jobs = [f"job-{number}" for number in range(1000)]
    assert all(sum(shard.has(job) for shard in shards) == 1 for job in jobs)
    assert all(200 < sum(map(shard.has, jobs)) < 300 for shard in shards)  # about a quarter of 1,000


def test_shard_of_a_job_never_changes():
    assert [next(index for index in range(4) if Shard(index, 4).has(job)) for job in ("a", "b", "job")] == [3, 1, 0]


@pytest.mark.parametrize("text", ["", "4", "4/4", "0/0", "-1/4", "0/4/", "a/b"])
def test_text_that_is_no_shard_is_refused(text):
    with pytest.raises(ValueError, match="is no shard: write 0/4"):
        parse(text)
