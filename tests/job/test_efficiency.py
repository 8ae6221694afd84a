"""Tests of the time categories of steps, which sum to that of the critical rank, and of the time that steps lose."""

from dataclasses import astuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.build import job_steps, step_record
from tests.steps import aligned, changed
from zmon.job.baseline import step_window
from zmon.job.efficiency import JobTime, LastingLoss, lasting_loss, lost_ratio, lost_seconds, step_categories
from zmon.schema.aligned_step import StepWindow
from zmon.schema.names import OPS, PHASES

SECONDS = st.integers(0, 10**10).map(lambda ns: ns * 1e-9)  # a box has nanoseconds
RECORDS = st.lists(
    st.builds(
        lambda phases, ops: step_record(1, phases, ops),
        st.dictionaries(st.sampled_from(PHASES), SECONDS, min_size=1),
        st.dictionaries(st.sampled_from(OPS), SECONDS),
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=60, deadline=None)
@given(RECORDS)
def test_categories_sum_to_the_steps_of_the_critical_rank(records):
    step = aligned(1, records)
    causes = step_categories(step)
    timed = [r for r in records if r.measures.self_seconds or r.measures.exposed_seconds] or records
    critical = records[step.critical_rank]
    assert critical.measures.exposed_seconds == pytest.approx(min(r.measures.exposed_seconds for r in timed))
    assert sum(causes.values()) == pytest.approx(critical.duration)
    assert causes["imbalance"] >= 0
    job = JobTime()
    job.add([step, aligned(5, records, stands_for=4)])  # a sampled step counts for the others
    assert job.num_steps == 5
    assert sum(job.causes.values()) == pytest.approx(job.total_seconds)
    assert job.total_seconds == pytest.approx(5 * sum(causes.values()))


STEPS = {  # self time and exposed time of each rank in seconds, and the categories of the step
    "three ranks wait for the fourth": ([(0.010, 0.032)] * 3 + [(0.040, 0.002)], (0.010, 0.030, 0.002)),
    "the others waited 3 s for a rank that saved first": ([(0.010, 0.010)] + [(0.011, 3.009)] * 3, (0.010, 0.0, 0.010)),
    "each rank takes longer than another": ([(0.001, 0.049), (0.012, 0.038), (0.040, 0.010)], (0.012, 0.028, 0.010)),
    "equal ranks": ([(0.010, 0.010)] * 4, (0.010, 0.0, 0.010)),
}


@pytest.mark.parametrize(("ranks", "categories"), STEPS.values(), ids=STEPS)
def test_only_the_wait_of_the_critical_rank_is_communication(ranks, categories):
    step = aligned(1, [step_record(1, {"forward": self_time}, {"all_to_all": exposed}) for self_time, exposed in ranks])
    assert step_categories(step) == pytest.approx(
        dict(zip(("forward", "imbalance", "all_to_all"), categories, strict=True))
    )
    assert step.seconds == pytest.approx(sum(categories))


def test_throughput_covers_all_ranks_and_recent_steps():
    job = JobTime()
    for step in range(300):
        job.add([aligned(step, [step_record(step, samples=32), step_record(step, samples=64)])])
    assert job.samples_per_second == pytest.approx(96 / 0.020)
    assert len(job.recent_seconds) == 256


APART = aligned(1, [step_record(1, {"data": 0.01, "forward": f}, {}, samples=30) for f in (0.01, 0.02, 0.05)])


def test_ranks_that_are_not_compared_lose_nothing_to_each_other():
    assert step_categories(APART, alone=0) == pytest.approx({"imbalance": 0.0, "data": 0.01, "forward": 0.01})


def test_throughput_of_ranks_that_are_not_compared_is_the_sum_of_their_own():
    job = JobTime()
    job.add([APART], alone=0)
    assert job.recent_seconds == pytest.approx([0.02])
    assert job.samples_per_second == pytest.approx(30 / 0.02 + 30 / 0.03 + 30 / 0.06)
    job.add([aligned(2, [step_record(2, ops={}, samples=n) for n in (30, None)])], alone=0)
    assert job.samples_per_second == pytest.approx(30 / 0.02 + 30 / 0.03 + 30 / 0.06)


def test_throughput_is_unknown_if_a_rank_reports_no_samples():
    job = JobTime()
    job.add([aligned(1, [step_record(1, samples=32), step_record(1, samples=None)])])
    assert job.samples_per_second is None
    assert JobTime().samples_per_second is None


# -- time that steps lose because ranks are uneven ---------------------------------------------------------


def step(*self_times, until=0.100, op="all_reduce"):
    """Return a step of ranks with these self times, which wait for each other until the end of the step."""
    (only,) = job_steps(1, *({"phases": {"forward": each}, "ops": {op: until - each}} for each in self_times))
    return only


def windows(*ratios, seconds=5.0):
    """Return step windows of this length, which lose these shares of their time; None: unknown."""
    times = {"seconds": seconds / 50, "self_seconds": 0.05, "data_seconds": 0.01, "exposed_seconds": 0.02}
    return tuple(StepWindow(num_steps=50, **times, samples=None, lost_ratio=ratio) for ratio in ratios)


LOSSES = {  # self times, exposed times by op (...: until the end of the step), and the seconds that the step loses
    "two ranks": ((0.080, 0.040), ..., 0.020),
    "four ranks": ((0.080, 0.040, 0.040, 0.040), ..., 0.030),
    "even ranks": ((0.050, 0.050), ..., 0),
    # no more than the ranks waited: they do not meet in this step, or only for a moment
    "ranks that do not meet": ((0.080, 0.040), {}, 0),
    "ranks that meet for a moment": ((0.080, 0.040), {"all_reduce": (0.010, 0.014)}, 0.002),
}


@pytest.mark.parametrize(("self_times", "exposed", "lost"), LOSSES.values(), ids=LOSSES)
def test_step_loses_what_the_slowest_rank_takes_beyond_the_mean(self_times, exposed, lost):
    uneven = step(*self_times)
    assert lost_seconds(uneven if exposed is ... else changed(uneven, exposed=exposed)) == pytest.approx(lost)


def test_step_window_has_the_share_of_its_time_that_is_lost():
    assert step_window([step(0.080, 0.040), step(0.060, 0.060)]).lost_ratio == pytest.approx(0.1)
    assert lost_ratio([step(0.0, 0.0, until=0.0)]) is None


WINDOWS = {  # the shares of time that windows of 5 s lose, and the loss that lasts
    "from the first window that loses": ((0.0, 0.0, 0.0, 0.0, 0.3, 0.3, 0.3, 0.3), LastingLoss(0.3, 6, 20)),
    "a large loss in the oldest window does not count": ((0.9, 0.2, 0.2), LastingLoss(0.2, 3, 15)),
    "a pause of a host makes no large loss of a small one": ((0.2, 0.9, 0.2, 0.2), LastingLoss(0.2, 4, 20)),
    "the newest window loses most": ((0.2, 0.3, 0.9), LastingLoss(0.25, 4, 15)),
    "a large loss in one window, the oldest": ((0.9, 0.05, 0.05), None),  # the window that lost most does not count
    "a large loss in one window": ((0.05, 0.9, 0.05), None),
    "no windows": ((), None),
    "too few windows": ((0.5, 0.5), None),
    "a window of unknown loss": ((0.5, 0.5, None), None),
}


@pytest.mark.parametrize(("ratios", "expected"), WINDOWS.values(), ids=WINDOWS)
def test_loss_lasts_for_as_long_as_the_windows_lose_that_much(ratios, expected):
    loss = lasting_loss(windows(*ratios), 3, 0.1)
    assert (loss and astuple(loss)) == (expected and pytest.approx(astuple(expected)))
