"""Tests of how busy the GPUs of a job are: the last minute of training, and over all launches."""

from dataclasses import replace

import pytest

from tests.build import NOW, rank_state, snapshot
from zmon.job.gpu_activity import SAMPLE_SECONDS, ActivitySample, RecentActivity, activity_of
from zmon.job.time_account import Account
from zmon.schema.host import GpuSample, HostSample, HostWindow
from zmon.schema.utilization import GpuActivity


def job(*tensor, memory=0.5, number=0, activity="train", **changes):
    """Return a job of one rank per GPU whose tensor cores are this busy, after so many samples."""
    world_size = changes.pop("world_size", len(tensor))
    ranks = [rank_state(n, device=f"GPU-{n}", activity=activity, world_size=world_size) for n in range(len(tensor))]
    gpus = [
        GpuSample(str(n), f"GPU-{n}", tensor_active_ratio=ratio, memory_active_ratio=memory)
        for n, ratio in enumerate(tensor)
    ]
    gpus.append(GpuSample("9", "GPU-9", tensor_active_ratio=1.0, memory_active_ratio=1.0))  # of nobody
    window = HostWindow("node-a", 60.0, HostSample(), HostSample(gpus=tuple(gpus)))
    return snapshot(*ranks, hardware=[window], time=NOW + number * SAMPLE_SECONDS, **changes)


def test_activity_is_the_mean_of_the_gpus_of_the_job():
    assert activity_of(job(0.2, 0.6)) == ActivitySample(pytest.approx(0.4), 0.5)


def test_gpu_of_two_ranks_counts_once():
    shared = job(0.2, 0.6, 0.6)
    shared = replace(shared, ranks=tuple(replace(r, device=f"GPU-{min(r.rank, 1)}") for r in shared.ranks))
    assert activity_of(shared).tensor_ratio == pytest.approx(0.4)


def test_activity_is_unknown_if_that_of_one_gpu_is():
    assert activity_of(job(0.2, None)) is None


def test_activity_is_unknown_while_a_rank_is_missing():
    assert activity_of(job(0.2, world_size=2)) is None


def test_activity_is_unknown_without_gpus():
    assert activity_of(snapshot(rank_state(0), rank_state(1))) is None


def test_traffic_of_the_memory_may_be_unknown_alone():
    assert activity_of(job(0.2, memory=None)) == ActivitySample(0.2, None)


def test_means_are_over_the_last_minute_of_training():
    recent, account = RecentActivity(), Account("job")
    for number in range(20):
        recent.add(job(0.2 if number < 8 else 0.4, number=number), account, False)
    assert recent.activity(account) == GpuActivity(
        pytest.approx(0.4), pytest.approx((7 * 0.2 + 12 * 0.4) / 19), pytest.approx(0.5)
    )


def test_no_more_than_one_sample_is_taken_in_five_seconds():
    recent, account = RecentActivity(), Account("job")
    for tenth in range(51):
        recent.add(replace(job(0.2), time=NOW + tenth / 10), account, False)
    assert (len(recent.training), account.tensor_known_seconds) == (2, pytest.approx(5.0))


@pytest.mark.parametrize(("activity", "stalled"), [("checkpoint", False), ("train", True)])
def test_checkpoints_and_stalls_count_over_wall_clock_only(activity, stalled):
    recent, account = RecentActivity(), Account("job")
    recent.add(job(0.4), account, False)
    recent.add(job(0.4, number=1), account, False)
    recent.add(job(0.0, number=2, activity=activity), account, stalled)
    assert recent.activity(account) == GpuActivity(pytest.approx(0.4), pytest.approx(0.2), 0.5)


def test_time_of_a_restart_counts_over_wall_clock():
    recent, account = RecentActivity(), Account("job", causes={"restart": 100.0})
    for number in range(3):
        recent.add(job(0.5, number=number), account, False)
    account.causes["restart"] += 10.0
    assert recent.activity(account).tensor_wall_ratio == pytest.approx(0.25)


def test_activity_is_unknown_once_that_of_a_gpu_is():
    recent, account = RecentActivity(), Account("job")
    for number in range(3):
        recent.add(job(0.5, number=number), account, False)
    recent.add(job(None, number=3), account, False)
    assert recent.activity(account) is None
    recent.add(job(0.5, number=9), account, False)
    assert account.tensor_known_seconds == pytest.approx(10.0)  # nothing is assumed of the time between
    assert recent.activity(account).tensor_ratio == 0.5


def test_job_without_gpus_has_no_activity():
    recent, account = RecentActivity(), Account("job")
    recent.add(snapshot(rank_state(0), rank_state(1)), account, False)
    assert recent.activity(account) is None
    assert account.tensor_ratio is None


def test_gpus_of_a_job_that_has_ended_belong_to_others():
    recent, account = RecentActivity(), Account("job")
    for number in range(3):
        recent.add(job(0.5, number=number), account, False)
    for number in range(3, 9):
        ended = job(0.9, number=number, activity="done" if number < 6 else "train")
        ended = replace(ended, ranks=tuple(replace(r, alive=number < 6) for r in ended.ranks))
        recent.add(ended, account, False)
    assert account.tensor_ratio == pytest.approx(0.5)
    assert account.tensor_known_seconds == pytest.approx(10.0)
    assert recent.activity(account) is None
