"""Tests of the time categories of steps. They sum to the step time of the critical rank."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.build import step_record
from tests.steps import aligned
from zmon.job.efficiency import JobTime, step_categories
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
def test_categories_sum_to_the_step_of_the_critical_rank(records):
    causes = step_categories(aligned(1, records))
    timed = [r for r in records if r.measures.self_seconds or r.measures.exposed_seconds] or records
    least = min(r.measures.exposed_seconds for r in timed)
    last = [r.duration for r in timed if r.measures.exposed_seconds == least]
    assert any(sum(causes.values()) == pytest.approx(duration) for duration in last)
    assert causes["imbalance"] >= 0


@settings(max_examples=60, deadline=None)
@given(RECORDS)
def test_categories_of_a_job_sum_to_the_time_of_its_steps(records):
    job = JobTime()
    job.add([aligned(1, records), aligned(5, records, stands_for=4)])
    assert job.num_steps == 5
    assert sum(job.causes.values()) == pytest.approx(job.total_seconds)


def test_straggler_counts_as_imbalance_and_not_as_communication():
    """Three ranks wait 30 ms for the fourth. Communication is only the 2 ms that the fourth waits as well."""
    quick = [step_record(1, {"forward": 0.010}, {"all_to_all": 0.032}) for _ in range(3)]
    slow = step_record(1, {"forward": 0.040}, {"all_to_all": 0.002})
    assert step_categories(aligned(1, [*quick, slow])) == pytest.approx(
        {"forward": 0.010, "imbalance": 0.030, "all_to_all": 0.002}
    )


def test_wait_for_a_rank_that_saved_first_is_not_communication():
    """The step of the rank that saved takes 20 ms. The others waited 3 s for this rank, not for the network."""
    waited = [step_record(1, {"forward": 0.011}, {"all_reduce": 3.009}) for _ in range(3)]
    saved = step_record(1, {"forward": 0.010}, {"all_reduce": 0.010})
    step = aligned(1, [saved, *waited])
    assert (step.seconds, step.critical_rank) == (pytest.approx(0.020), 0)
    assert step_categories(step) == pytest.approx({"forward": 0.010, "imbalance": 0.0, "all_reduce": 0.010})


def test_imbalance_is_the_largest_self_time_minus_the_median():
    ranks = [step_record(1, {"forward": seconds}, {"all_to_all": 0.050 - seconds}) for seconds in (0.001, 0.012, 0.040)]
    assert step_categories(aligned(1, ranks)) == pytest.approx(
        {"forward": 0.012, "imbalance": 0.028, "all_to_all": 0.010}
    )


def test_equal_ranks_have_no_imbalance():
    causes = step_categories(aligned(1, [step_record() for _ in range(4)]))
    assert causes == pytest.approx({"forward": 0.010, "imbalance": 0.0, "all_to_all": 0.010})


def test_sampled_step_counts_for_unsampled_steps():
    job = JobTime()
    job.add([aligned(8, [step_record(8)]), aligned(16, [step_record(16)], stands_for=8)])
    assert job.num_steps == 9
    assert job.total_seconds == pytest.approx(9 * 0.020)


def test_throughput_covers_all_ranks_and_recent_steps():
    job = JobTime()
    for step in range(300):
        job.add([aligned(step, [step_record(step, samples=32), step_record(step, samples=64)])])
    assert job.samples_per_second == pytest.approx(96 / 0.020)
    assert len(job.recent_seconds) == 256


def test_throughput_is_unknown_if_a_rank_reports_no_samples():
    job = JobTime()
    job.add([aligned(1, [step_record(1, samples=32), step_record(1, samples=None)])])
    assert job.samples_per_second is None
    assert JobTime().samples_per_second is None
