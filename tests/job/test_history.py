"""Tests of the history of a job: alignment of steps between ranks, and gaps."""

import random

import pytest

from tests.build import add_records, step_record
from tests.steps import aligned
from zmon.job.history import MIN_STEPS, History


def records(*steps, **others):
    return [step_record(step, **others) for step in steps]


def numbers(aligned):
    return [(a.step, a.stands_for) for a in aligned]


def lists(columns):
    """Return the columns by name, as lists."""
    return {name: list(column) for name, column in columns.items()}


# -- alignment ---------------------------------------------------------------------------------------------


def test_aligned_step_has_the_values_of_all_ranks():
    quick = step_record(7, {"forward": 0.010, "data": 0.001}, {"all_to_all": 0.020}, samples=8)
    slow = step_record(7, {"forward": 0.029}, {"all_to_all": 0.001, "all_reduce": 0.001}, samples=None)
    step = aligned(7, [quick, slow])
    assert step.self_seconds == pytest.approx((0.011, 0.029))
    assert lists(step.phases) == {"forward": [0.010, 0.029], "data": [0.001, 0.0]}
    assert lists(step.exposed) == {"all_to_all": [0.020, 0.001], "all_reduce": [0.0, 0.001]}
    assert lists(step.sent_bytes) == lists(step.received_bytes) == {"all_to_all": [8, 8], "all_reduce": [0, 8]}
    assert list(step.samples) == [8, None]
    assert list(step.lookups) == [None, None]


def test_number_that_nothing_can_have_counted_is_unknown():
    """A log can claim it; a report cannot, because the hub refuses it."""
    big = step_record(7, {}, {}, samples=1 << 63)
    assert list(aligned(7, [big, step_record(7, {}, {}, samples=2)]).samples) == [None, 2]


def test_duration_of_an_aligned_step_is_that_of_the_critical_rank():
    """A waiting rank may count the delay of another rank twice, so its own step may be longer."""
    early = step_record(1, {"forward": 0.010}, {"all_to_all": 0.080})
    last = step_record(1, {"forward": 0.040}, {"all_to_all": 0.005})
    assert aligned(1, [early, last]).seconds == pytest.approx(0.045)


def test_step_is_added_after_every_rank_has_reported():
    history = History(2)
    assert add_records(history, {0: records(1, 2, 3), 1: records(1)}) != []
    assert numbers(add_records(history, {1: records(2)})) == [(2, 1)]
    assert add_records(history, {0: records(4)}) == []
    assert numbers(add_records(history, {1: records(3, 4)})) == [(3, 1), (4, 1)]
    assert numbers(history.steps) == [(1, 1), (2, 1), (3, 1), (4, 1)]


def test_order_of_records_does_not_matter():
    history, chance = History(4), random.Random(2)
    by_rank = {rank: records(*range(1, 30)) for rank in range(4)}
    for steps in by_rank.values():
        chance.shuffle(steps)
    assert numbers(add_records(history, by_rank)) == [(step, 1) for step in range(1, 30)]


def test_repeated_record_counts_once():
    history = History(2)
    assert numbers(add_records(history, {0: records(1, 1), 1: records(1, 1)})) == [(1, 1)]


def test_step_that_a_rank_never_reported_is_left_out():
    history = History(3)
    assert add_records(history, {0: records(1, 2), 1: records(1, 2)}) == []


# -- gaps --------------------------------------------------------------------------------------------------


def test_sampled_step_stands_for_the_unsampled_steps_before():
    history = History(2)
    assert numbers(add_records(history, {0: records(8, 16, 24), 1: records(8, 16, 24)})) == [(8, 1), (16, 8), (24, 8)]


def test_ranks_with_different_sampling_are_aligned_at_common_steps():
    history = History(2)
    assert numbers(add_records(history, {0: records(*range(4, 36, 4)), 1: records(16, 32)})) == [(16, 1), (32, 16)]


def test_step_after_lost_records_stands_for_the_lost_steps():
    history = History(2)
    add_records(history, {0: records(1, 2, 3, 4), 1: records(1, 2, 3, 4)})
    assert numbers(add_records(history, {0: records(5, 6, 7), 1: records(7)})) == [(7, 3)]


def test_number_of_incomplete_steps_is_limited():
    history = History(2)
    for step in range(1, 2000):
        add_records(history, {0: records(step)})
    assert len(history._pending) <= 512
    assert numbers(add_records(history, {1: records(1, 1999)})) == [(1999, 1)]


def test_step_that_is_repeated_while_it_waits_is_kept_once():
    """An agent with a broken cursor sends it in every pass, and another rank is missing."""
    history = History(3)
    for number in range(50):
        for rank in (0, 1):
            add_records(history, {rank: [step_record(5, {"forward": 1.0 + number + rank / 2})]})
    assert len(history._pending[5]) == 2
    (step,) = add_records(history, {2: records(5)})
    assert list(step.phases["forward"][:2]) == [50.0, 50.5]


def test_steps_of_a_large_job_wait_in_little_memory_while_an_agent_is_silent():
    history = History(1024)
    steps = {step: records(step) for step in range(1, 101)}
    for step in steps:
        add_records(history, dict.fromkeys(range(1016), steps[step]))
    assert sum(len(part.rows) for parts in history._pending.values() for part in parts) <= 32_768
    late = add_records(history, {rank: records(*range(10, 101, 10)) for rank in range(1016, 1024)})
    assert [step.step for step in late] == [70, 80, 90, 100]
    assert not history._pending


def test_step_that_a_rank_has_passed_does_not_wait():
    history = History(3)
    add_records(history, {0: records(1, 2, 3), 1: records(1, 2, 3), 2: records(1, 3)})
    assert not history._pending
    add_records(history, {0: records(4, 5), 1: records(4)})
    assert sorted(history._pending) == [4, 5]  # ranks 1 and 2 may still report them
    add_records(history, {2: records(5)})
    assert sorted(history._pending) == [5]


def test_steps_that_stay_incomplete_do_not_pile_up_while_the_hub_is_slow():
    """The hub asks the agents at different times, so they answer with different steps."""
    history, chance = History(16), random.Random(4)
    reached, num_steps = dict.fromkeys(range(16), 0), 0
    for newest in range(20, 4000, 20):
        for rank in reached:
            until = newest + chance.randrange(8)
            num_steps += len(
                add_records(history, {rank: records(*range(max(reached[rank], until - 12) + 1, until + 1))})
            )
            reached[rank] = until
        assert len(history._pending) < 16
    assert num_steps > 500


def test_ranks_that_start_over_at_a_lower_step_are_aligned():
    history = History(2)
    add_records(history, {0: records(500, 501), 1: records(500)})
    add_records(history, {0: records(1), 1: records(1)})
    assert numbers(add_records(history, {0: records(2, 3), 1: records(2, 3)})) == [(2, 1), (3, 1)]


@pytest.mark.parametrize(("world_size", "num_steps"), [(1, 256), (8, 128), (64, MIN_STEPS)])
def test_history_keeps_recent_steps_and_more_of_small_jobs(world_size, num_steps):
    history = History(world_size)
    assert len(add_records(history, {rank: records(*range(1, 301)) for rank in range(world_size)})) == 300
    assert numbers(history.steps) == [(step, 1) for step in range(301 - num_steps, 301)]


def test_rank_without_times_is_not_critical():
    """The times of a GPU may arrive too late."""
    step = aligned(1, [step_record(1), step_record(1, {}, {})])
    assert (step.critical_rank, step.seconds) == (0, pytest.approx(0.020))


def test_step_after_a_long_gap_stands_only_for_itself():
    history = History(1)
    (first,) = add_records(history, {0: [step_record(1)]})
    (late,) = add_records(history, {0: [step_record(180_000)]})
    assert (first.stands_for, late.stands_for) == (1, 1)
