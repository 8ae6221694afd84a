"""Tests of the history of a job: steps that all ranks have reported, those that wait for a rank, and gaps."""

import random

import pytest

from tests.build import add_records, step_record
from zmon.job.history import MIN_STEPS, History


def records(*steps):
    """Return the records of a rank about these steps."""
    return [step_record(step) for step in steps]


def numbers(aligned):
    """Return the number of each step and how many steps it stands for."""
    return [(step.step, step.stands_for) for step in aligned]


# Number of ranks, the steps that the ranks report in each pass, and the steps (number, stands for) that each pass adds.
CASES = {
    "all ranks have reported": (
        2, [{0: (1, 2, 3), 1: (1,)}, {1: (2,)}, {0: (4,)}, {1: (3, 4)}], [[(1, 1)], [(2, 1)], [], [(3, 1), (4, 1)]]),
    "a record is repeated": (2, [{0: (1, 1), 1: (1, 1)}], [[(1, 1)]]),
    "a rank never reports": (3, [{0: (1, 2), 1: (1, 2)}], [[]]),
    "steps are sampled": (2, [{0: (8, 16, 24), 1: (8, 16, 24)}], [[(8, 1), (16, 8), (24, 8)]]),
    "ranks sample differently": (2, [{0: range(4, 36, 4), 1: (16, 32)}], [[(16, 1), (32, 16)]]),
    "records were lost": (2, [{0: (3, 4), 1: (3, 4)}, {0: (5, 6, 7), 1: (7,)}], [[(3, 1), (4, 1)], [(7, 3)]]),
    "a gap is long": (1, [{0: (1,)}, {0: (180_000,)}], [[(1, 1)], [(180_000, 1)]]),
    "ranks start over at a lower step": (
        2, [{0: (500, 501), 1: (500,)}, {0: (1,), 1: (1,)}, {0: (2, 3), 1: (2, 3)}],
        [[(500, 1)], [(1, 1)], [(2, 1), (3, 1)]]),
}  # fmt: skip


@pytest.mark.parametrize(("num_ranks", "passes", "added"), CASES.values(), ids=CASES)
def test_step_is_added_once_all_ranks_have_reported_it(num_ranks, passes, added):
    history = History(num_ranks)
    reports = [{rank: records(*steps) for rank, steps in ranks.items()} for ranks in passes]
    assert [numbers(add_records(history, report)) for report in reports] == added
    assert numbers(history.steps) == [step for steps in added for step in steps]


def test_order_of_records_does_not_matter():
    history, chance = History(4), random.Random(2)
    by_rank = {rank: records(*range(1, 30)) for rank in range(4)}
    for steps in by_rank.values():
        chance.shuffle(steps)
    assert numbers(add_records(history, by_rank)) == [(step, 1) for step in range(1, 30)]


def test_number_of_incomplete_steps_is_limited():
    history = History(2)
    for first in range(1, 2000, 100):
        add_records(history, {0: records(*range(first, first + 100))})
        assert len(history._pending) <= 512  # the most steps that wait for a rank
    assert numbers(add_records(history, {1: records(1, 2000)})) == [(2000, 1)]


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
    num_rows = sum(len(part.rows) for parts in history._pending.values() for part in parts)
    assert num_rows <= 32_768  # 32 steps of all ranks
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
    last_steps = dict.fromkeys(range(16), 0)  # by rank
    num_steps = 0
    for newest in range(20, 4000, 20):
        for rank in last_steps:
            last = newest + chance.randrange(8)
            first = max(last_steps[rank], last - 12) + 1
            num_steps += len(add_records(history, {rank: records(*range(first, last + 1))}))
            last_steps[rank] = last
        assert len(history._pending) < 16
    assert num_steps > 500


@pytest.mark.parametrize(("world_size", "num_steps"), [(1, 256), (8, 128), (64, MIN_STEPS)])
def test_history_keeps_more_recent_steps_of_small_jobs(world_size, num_steps):
    history = History(world_size)
    assert len(add_records(history, {rank: records(*range(1, 301)) for rank in range(world_size)})) == 300
    assert numbers(history.steps) == [(step, 1) for step in range(301 - num_steps, 301)]
