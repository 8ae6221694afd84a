"""Tests that the counts of every collective equal those by hand, on two real ranks with gloo."""

import inspect

import pytest
import torch
from torch.distributed import distributed_c10d

from tests.probe.hooks.job import run_job
from zmon.probe.hooks.describe import DESCRIBERS
from zmon.schema.names import OPS


@pytest.fixture(scope="module")
def job(tmp_path_factory, torch_zygote):
    """Return the results of both ranks: their own counts, and the contents of their boxes."""
    return run_job(torch_zygote, tmp_path_factory.mktemp("collectives"), "counting_job.py", 60)


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("op", OPS)
def test_counts_and_bytes_equal_those_of_the_script(job, rank, op):
    measured = job[rank].totals.measures.ops.get(op)
    box = [measured.count, measured.sent_bytes, measured.received_bytes] if measured else [0, 0, 0]
    assert box == job[rank].noted["counted"].get(op, [0, 0, 0])


@pytest.mark.parametrize("rank", [0, 1])
def test_every_valid_call_was_counted_and_parts_sum_to_the_step(job, rank):
    """The only dropped call is an invalid call, which torch refuses as well, and which is not in flight afterwards."""
    assert job[rank].noted["error"]
    assert job[rank].totals.dropped_records == 1
    assert job[rank].noted["after error"] is False
    assert len(job[rank].records) == 3  # the steps of the script
    for record in job[rank].records:
        parts = record.measures.self_seconds + record.measures.exposed_seconds
        assert parts == pytest.approx(record.duration, abs=1e-9)


def test_box_shows_the_collective_in_which_a_rank_waits(job):
    op, num_bytes, group = job[1].noted["peer"]
    assert (op, num_bytes) == ("all_reduce", 2 * 77 * 4)  # 77 floats, in both directions
    assert job[0].sizes[group] == 2


def test_waiting_rank_has_exposed_time_and_the_late_rank_has_less(job):
    early, late = (rank.totals.measures.ops["all_reduce"].exposed_seconds for rank in job)
    assert early > 0.15  # rank 1 comes 0.2 s late
    assert late < early / 2


def test_asynchronous_collective_is_in_flight_from_issue_and_exposed_from_wait(job):
    # Rank 1 comes 0.2 s late to this step's all-reduce, and each rank works for 0.05 s between the call and the wait.
    early, late = (rank.records[1].measures.ops["all_reduce"] for rank in job)
    assert 0.08 < early.exposed_seconds < early.inflight_seconds - 0.04
    assert late.exposed_seconds < early.exposed_seconds / 2
    assert late.inflight_seconds > 0.04


def test_sequences_count_the_collectives_of_each_group(job):
    for rank in job:
        name = rank.noted["groups"]["both"]
        assert (rank.sequences[name], rank.sizes[name]) == (3, 2)
    name = job[1].noted["groups"]["single"]
    assert (job[1].sequences[name], job[1].sizes[name]) == (1, 1)
    assert name not in job[0].sequences


def test_members_of_a_group_agree_on_its_sequence(job):
    common = job[0].sequences.keys() & job[1].sequences.keys()
    assert len(common) == 2
    assert [job[0].sequences[name] for name in common] == [job[1].sequences[name] for name in common]


def test_bytes_on_the_interface_come_from_local_rank_0_only(job):
    assert job[0].totals.measures.nic_sent_bytes > 0
    assert job[1].totals.measures.nic_sent_bytes is None


def test_tensors_of_different_sizes_are_all_counted_in_each_direction():
    """The job cannot test this, because gloo supports lists of equal sizes only."""
    _, describe = DESCRIBERS["all_to_all"]
    sent, received, *_ = describe([torch.ones(3), torch.ones(5)], [torch.ones(4), torch.ones(2, 1)])
    assert (sent, received) == (6 * 4, 8 * 4)  # a float has 4 bytes


@pytest.mark.parametrize("name", DESCRIBERS)
def test_describer_accepts_every_argument_of_its_function(name):
    """A collective with an argument that the describer does not know would be dropped and not counted."""
    theirs = list(inspect.signature(inspect.unwrap(getattr(distributed_c10d, name))).parameters)
    _, describe = DESCRIBERS[name]
    ours = list(inspect.signature(describe).parameters)
    assert [argument for argument in ours if argument in theirs] == theirs  # an older torch may have fewer
