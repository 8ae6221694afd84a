"""Tests of the activity of the GPUs of a job, over the last minute of training and over wall-clock."""

from dataclasses import replace

import pytest

from tests.build import NOW, rank_state, snapshot
from zmon.job.gpu_activity import SAMPLE_SECONDS, ActivitySample, RecentActivity, activity_of
from zmon.job.time_account import Account
from zmon.schema.host import GpuSample, HostSample, HostWindow
from zmon.schema.job import GpuActivity


def job(*tensor, memory=0.5, devices=range(9), world_size=None, **changes):
    """Return a job of one rank per GPU whose tensor cores are this busy."""
    fields = {"world_size": world_size or len(tensor), **changes}
    ranks = [rank_state(n, device=f"GPU-{devices[n]}", **fields) for n in range(len(tensor))]
    gpus = [
        GpuSample(str(n), f"GPU-{n}", tensor_active_ratio=ratio, memory_active_ratio=memory)
        for n, ratio in enumerate(tensor)
    ]
    gpus.append(GpuSample("9", "GPU-9", tensor_active_ratio=1.0, memory_active_ratio=1.0))  # of nobody
    return snapshot(*ranks, hardware=[HostWindow("node-a", 60.0, HostSample(), HostSample(gpus=tuple(gpus)))])


def after(*jobs, seconds=SAMPLE_SECONDS, stalled=()):
    """Return the recent activity and the account of a job after these snapshots; some of them are in a stall."""
    recent, account = RecentActivity(), Account("job", causes={"restart": 100.0})
    for number, job_ in enumerate(jobs):
        recent.add(replace(job_, time=NOW + number * seconds), account, number in stalled)
    return recent, account


BUSY, NO_GPU = job(0.5), snapshot(rank_state(0), rank_state(1))

USED = {
    "two GPUs": (job(0.2, 0.6), ActivitySample(pytest.approx(0.4), 0.5)),
    "two ranks share a GPU": (job(0.2, 0.6, 0.6, devices=(0, 1, 1)), ActivitySample(pytest.approx(0.4), 0.5)),
    "traffic of the memory is unknown": (job(0.2, memory=None), ActivitySample(0.2, None)),
    "a GPU is unknown": (job(0.2, None), None),
    "a rank is missing": (job(0.2, world_size=2), None),
    "no GPU": (NO_GPU, None),
}


@pytest.mark.parametrize(("snapshot_", "expected"), USED.values(), ids=USED)
def test_activity_is_the_mean_of_the_gpus_of_the_job(snapshot_, expected):
    assert activity_of(snapshot_) == expected


ACTIVITIES = {  # snapshots, the means of the tensor cores now and over wall-clock, and the time that is known
    "the last minute of training counts": ([job(0.2)] * 8 + [job(0.4)] * 12, 0.4, (7 * 0.2 + 12 * 0.4) / 19, 95.0),
    "a checkpoint counts over wall-clock": ([job(0.4)] * 2 + [job(0.0, activity="checkpoint")], 0.4, 0.2, 10.0),
    "a GPU is unknown": ([BUSY] * 3 + [job(None)], None, 0.5, 10.0),
    "nothing is assumed of the time before": ([job(0.1)] * 3 + [job(None)] * 6 + [BUSY], 0.5, 0.1, 10.0),
    "no GPU": ([NO_GPU], None, None, 0.0),
    "others use the GPUs of a job that is done": ([BUSY] * 3 + [job(0.9, activity="done")] * 6, None, 0.5, 10.0),
    "others use the GPUs of a job that is gone": ([BUSY] * 3 + [job(0.9, alive=False)] * 6, None, 0.5, 10.0),
}


@pytest.mark.parametrize(("jobs", "now", "wall", "known"), ACTIVITIES.values(), ids=ACTIVITIES)
def test_activity_is_a_mean_over_time(jobs, now, wall, known):
    recent, account = after(*jobs)
    means = GpuActivity(pytest.approx(now), pytest.approx(wall), pytest.approx(0.5))
    assert recent.activity(account) == (None if now is None else means)
    assert account.tensor_ratio == pytest.approx(wall)
    assert account.tensor_known_seconds == pytest.approx(known)


def test_no_more_than_one_sample_is_taken_in_five_seconds():
    recent, account = after(*[BUSY] * 51, seconds=0.1)
    assert (len(recent.training), account.tensor_known_seconds) == (2, pytest.approx(5.0))


def test_time_between_two_samples_counts_for_two_intervals_at_most():
    _, account = after(BUSY, BUSY, seconds=60.0)
    assert account.tensor_known_seconds == 2 * SAMPLE_SECONDS


def test_clock_that_is_set_does_not_change_the_time_between_two_samples():
    recent, account = after(BUSY)
    recent.move_times(3600.0)
    recent.add(replace(BUSY, time=NOW + 3600.0 + SAMPLE_SECONDS), account, False)
    assert account.tensor_known_seconds == SAMPLE_SECONDS


def test_stalls_and_restarts_count_over_wall_clock_only():
    recent, account = after(job(0.4), job(0.4), job(0.0), stalled=(2,))
    assert recent.activity(account) == GpuActivity(pytest.approx(0.4), pytest.approx(0.2), 0.5)
    account.causes["restart"] += 10.0
    assert recent.activity(account).tensor_wall_ratio == pytest.approx(0.1)
