"""Tests of what a hub of one shard keeps of an agent's report; an older agent reports the jobs of all shards."""

from dataclasses import replace

from tests.build import agent_report, rank_state, step_record
from zmon.job.sharding import of_shard, suspects_of_shard
from zmon.schema.api import Suspicion
from zmon.schema.api.agent import UnreadRank
from zmon.schema.shard import Shard

OURS, OTHERS = Shard(1, 4), Shard(3, 4)  # job `b` is in the first one, job `a` in the second: see test_shard.py


def report():
    ranks = (rank_state(0, job_id="a", run_uid="a0"), rank_state(0, job_id="b", run_uid="b0"))
    records = {"a": {"a0": (step_record(1),)}, "b": {"b0": (step_record(1),)}}
    unread = (UnreadRank("a", 1, "damaged", "cut", 9.0), UnreadRank("b", 1, "damaged", "cut", 9.0))
    return agent_report(*ranks, records=records, unread=unread)


def test_only_the_jobs_of_the_shard_are_kept():
    own = of_shard(report(), OURS)
    assert [r.job_id for r in own.ranks] == ["b"]
    assert [*own.steps] == ["b"]
    assert [rank.job_id for rank in own.unread] == ["b"]


def test_each_job_is_kept_by_one_of_all_shards():
    job_ids = [r.job_id for index in range(4) for r in of_shard(report(), Shard(index, 4)).ranks]
    assert sorted(job_ids) == ["a", "b"]


def test_job_that_an_agent_has_renamed_keeps_its_shard():
    renamed = replace(report().ranks[0], job_id="a.uid2", wanted_job_id="a")
    assert [r.job_id for r in of_shard(agent_report(renamed), OTHERS).ranks] == ["a.uid2"]


def test_suspects_of_other_shards_start_no_pass():
    suspects = (Suspicion("a", 0, "stopped"), Suspicion("b", 0, "stopped"))
    assert suspects_of_shard(suspects, OURS) == suspects[1:]
