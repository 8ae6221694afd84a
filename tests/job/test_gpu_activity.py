"""Tests of how busy the GPUs of a job are: the last minute of training, and over all launches."""

import pytest

from tests.build import NOW, rank_state, snapshot
from zmon.job.gpu_activity import SAMPLE_SECONDS, ActivitySample, RecentActivity, activity_of
from zmon.job.time_account import Account
from zmon.schema.host import GpuSample, HostSample, HostWindow
from zmon.schema.utilization import GpuActivity


def job(*tensor, memory=0.5, number=0, devices=range(9), world_size=None, **changes):
    """Return a job of one rank per GPU whose tensor cores are this busy, after so many samples."""
    fields = {"world_size": world_size or len(tensor), **changes}
    ranks = [rank_state(n, device=f"GPU-{devices[n]}", **fields) for n in range(len(tensor))]
    gpus = [
        GpuSample(str(n), f"GPU-{n}", tensor_active_ratio=ratio, memory_active_ratio=memory)
        for n, ratio in enumerate(tensor)
    ]
    gpus.append(GpuSample("9", "GPU-9", tensor_active_ratio=1.0, memory_active_ratio=1.0))  # of nobody
    window = HostWindow("node-a", 60.0, HostSample(), HostSample(gpus=tuple(gpus)))
    return snapshot(*ranks, hardware=[window], time=NOW + number * SAMPLE_SECONDS)


def sampled(recent, account, *numbers, tensor=0.5, **changes):
    """Take these samples of a job with one GPU."""
    for number in numbers:
        recent.add(job(tensor, number=number, **changes), account, False)


@pytest.fixture
def recent():
    return RecentActivity()


@pytest.fixture
def account():
    return Account("job", causes={"restart": 100.0})


@pytest.mark.parametrize(
    ("snapshot_", "expected"),
    [
        (job(0.2, 0.6), ActivitySample(pytest.approx(0.4), 0.5)),
        (job(0.2, 0.6, 0.6, devices=(0, 1, 1)), ActivitySample(pytest.approx(0.4), 0.5)),
        (job(0.2, memory=None), ActivitySample(0.2, None)),
        (job(0.2, None), None),
        (job(0.2, world_size=2), None),
        (snapshot(rank_state(0), rank_state(1)), None),
    ],
    ids=["two GPUs", "two ranks share a GPU", "traffic of the memory is unknown", "a GPU is unknown",
         "a rank is missing", "no GPU"],
)  # fmt: skip
def test_activity_is_the_mean_of_the_gpus_of_the_job(snapshot_, expected):
    assert activity_of(snapshot_) == expected


def test_means_are_over_the_last_minute_of_training(recent, account):
    sampled(recent, account, *range(8), tensor=0.2)
    sampled(recent, account, *range(8, 20), tensor=0.4)
    assert recent.activity(account) == GpuActivity(
        pytest.approx(0.4), pytest.approx((7 * 0.2 + 12 * 0.4) / 19), pytest.approx(0.5)
    )


def test_no_more_than_one_sample_is_taken_in_five_seconds(recent, account):
    sampled(recent, account, *(n / 50 for n in range(51)))
    assert (len(recent.training), account.tensor_known_seconds) == (2, pytest.approx(5.0))


@pytest.mark.parametrize(("activity", "stalled"), [("checkpoint", False), ("train", True)])
def test_checkpoints_and_stalls_count_over_wall_clock_only(recent, account, activity, stalled):
    sampled(recent, account, 0, 1, tensor=0.4)
    recent.add(job(0.0, number=2, activity=activity), account, stalled)
    assert recent.activity(account) == GpuActivity(pytest.approx(0.4), pytest.approx(0.2), 0.5)


def test_time_of_a_restart_counts_over_wall_clock(recent, account):
    sampled(recent, account, 0, 1, 2)
    account.causes["restart"] += 10.0
    assert recent.activity(account).tensor_wall_ratio == pytest.approx(0.25)


def test_activity_is_unknown_once_that_of_a_gpu_is(recent, account):
    sampled(recent, account, 0, 1, 2)
    sampled(recent, account, 3, tensor=None)
    assert recent.activity(account) is None
    sampled(recent, account, 9)
    assert account.tensor_known_seconds == pytest.approx(10.0)  # nothing is assumed of the time between
    assert recent.activity(account).tensor_ratio == 0.5


def test_job_without_gpus_has_no_activity(recent, account):
    recent.add(snapshot(rank_state(0), rank_state(1)), account, False)
    assert (recent.activity(account), account.tensor_ratio) == (None, None)


@pytest.mark.parametrize("end", [{"activity": "done"}, {"alive": False}])
def test_gpus_of_a_job_that_has_ended_belong_to_others(recent, account, end):
    sampled(recent, account, 0, 1, 2)
    sampled(recent, account, *range(3, 9), tensor=0.9, **end)
    assert (account.tensor_ratio, account.tensor_known_seconds) == (pytest.approx(0.5), pytest.approx(10.0))
    assert recent.activity(account) is None
