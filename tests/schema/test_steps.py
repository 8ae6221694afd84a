"""Tests of the shape of steps: nothing is lost on the way, and what is unknown stays unknown."""

from dataclasses import replace
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zmon.schema.measures import COLUMNS
from zmon.schema.steps import (
    DURATION,
    MAX_NUMBER,
    MEAN,
    MEAN_STEPS,
    SAME_SIZE_SENT,
    START,
    STEP,
    RankSteps,
    Steps,
    absent,
    check_steps,
)


def sent(steps):
    """Return the steps as they are after a message, packed and in JSON."""
    packed = msgspec.msgpack.decode(msgspec.msgpack.encode(steps), type=Steps)
    assert msgspec.json.decode(msgspec.json.encode(steps), type=Steps) == packed
    check_steps(packed)
    return packed


def steps_of(**columns):
    """Return the steps 1, 2, … of rank a with these columns."""
    number = len(next(iter(columns.values())))
    return Steps.from_columns(("a",), (number,), {STEP: range(1, number + 1), **columns})


def columns_of(steps):
    """Return all columns that are present."""
    return {name: list(steps.column(name)) for name in steps.columns}


TWO_RANKS = Steps.from_rows(
    (STEP, "phase_forward", "samples"), {"a": [(1, 10, 32), (2, 20, 32)], "b": [(1, 30, -1), (3, 40, 32)]}
)


def test_rows_become_columns_in_the_order_of_the_ranks():
    assert (TWO_RANKS.run_uids, TWO_RANKS.counts, TWO_RANKS.num_rows) == (("a", "b"), (2, 2), 4)
    assert columns_of(TWO_RANKS) == {
        STEP: [1, 2, 1, 3], "phase_forward": [10, 20, 30, 40], "samples": [32, 32, -1, 32],
    }  # fmt: skip


def test_ranks_without_rows_have_no_columns():
    steps = Steps.from_rows((STEP, "samples"), {"a": [], "b": []})
    assert (steps.run_uids, steps.counts, steps.columns) == (("a", "b"), (0, 0), {})
    assert steps.values("samples") == list(steps.column(STEP)) == steps.sums("phase") == []
    assert sent(steps) == steps
    assert Steps.join([]) == Steps.join([Steps()]) == Steps()
    assert RankSteps().steps("a") == Steps(("a",), (0,))


@pytest.mark.parametrize(
    ("spread", "size"),
    [(1, 1), (255, 1), (256, 2), (65_535, 2), (65_536, 4), (2**32 - 1, 4), (2**32, 8), (2**62, 8)],
)
@pytest.mark.parametrize("low", [0, 5, -1])
def test_differences_have_the_smallest_size_that_holds_them(low, spread, size):
    high = min(low + spread, MAX_NUMBER - 1)
    steps = steps_of(samples=[low, high])
    assert len(steps.columns["samples"][1]) == 2 * size
    assert list(sent(steps).column("samples")) == [low, high]


def test_column_that_says_nothing_is_absent():
    steps = steps_of(phase_data=[0, 0], samples=[-1, -1], exposed_send=[0, 7], lookups=[0, 0], calls_send=[-1, -1])
    assert [*steps.columns] == [STEP, "exposed_send", "lookups", "calls_send"]
    assert list(steps.column("phase_data")) == [0, 0]
    assert list(steps.column("samples")) == [-1, -1]


@pytest.mark.parametrize("number", [0, -1])
def test_number_of_a_step_is_present_whatever_it_is(number):
    """A job may number its steps from 0."""
    steps = Steps.from_rows((STEP, "samples"), {"a": [(number, 32)], "b": [(number, 32)]})
    assert steps.columns[STEP] == (number, b"")
    assert sent(steps) == steps


rows_of_ranks = st.lists(
    st.tuples(st.text("abc", min_size=1, max_size=3), st.integers(0, 4)), max_size=4, unique_by=lambda rank: rank[0]
)
numbers = st.one_of(st.integers(-2, 300), st.integers(0, 2**33), st.integers(-MAX_NUMBER, MAX_NUMBER - 1))


@settings(max_examples=100, deadline=None)
@given(ranks=rows_of_ranks, names=st.sets(st.sampled_from([*COLUMNS, START, SAME_SIZE_SENT, "x"])), data=st.data())
def test_all_numbers_are_the_same_after_a_message(ranks, names, data):
    uids, counts = zip(*ranks, strict=True) if ranks else ((), ())
    number = sum(counts)
    all_names = [STEP, *names] if number else []
    columns = {name: data.draw(st.lists(numbers, min_size=number, max_size=number), label=name) for name in all_names}
    steps = sent(Steps.from_columns(uids, counts, columns))
    assert {name: list(steps.column(name)) for name in columns} == columns
    rows = list(zip(*columns.values(), strict=True))
    bounds = [sum(counts[:rank]) for rank in range(len(counts) + 1)]  # indices of rows between ranks
    by_rank = {uid: rows[begin:end] for uid, (begin, end) in zip(uids, pairwise(bounds), strict=True)}
    assert Steps.from_rows([*columns], by_rank) == steps
    parts = [steps.of_rank(uid) for uid in uids]
    joined = Steps.join(parts)
    assert [part.num_rows for part in parts] == [*counts]
    assert {name: list(joined.column(name)) for name in columns} == columns


@pytest.mark.parametrize("number", [2**62, 2**63 - 1, 10**30, -(2**62) - 1, -(2**63), -(10**30)])
@pytest.mark.parametrize("column", [STEP, "phase_forward", "bytes_sent_all_to_all"])
def test_number_beyond_the_limit_becomes_the_nearest_possible_one(number, column):
    limit = MAX_NUMBER - 1 if number > 0 else -MAX_NUMBER
    steps = sent(Steps.from_columns(("a",), (2,), {STEP: [1, 2], column: [5, number]}))
    assert list(steps.column(column)) == [5, limit]


@pytest.mark.parametrize("number", [2**62, 10**30, -(10**30)])
def test_amount_beyond_the_limit_is_unknown(number):
    steps = sent(steps_of(samples=[5, number], same_size_sent=[number, 5]))
    assert steps.values("samples") == [5, None]
    assert list(steps.column(SAME_SIZE_SENT)) == [-1, 5]


def test_values_are_seconds_bytes_and_counts():
    steps = steps_of(phase_forward=[1_500_000_000, 0], bytes_sent_send=[7, 8], samples=[32, -1], x=[4, -1])
    assert steps.values("phase_forward") == pytest.approx([1.5, 0.0])
    assert steps.values("bytes_sent_send") == [7, 8]
    assert steps.values("samples") == [32, None]
    assert steps.values("lookups") == [None, None]
    assert steps.values("exposed_send") == [0, 0]
    assert steps.values("x") == [4, -1]  # no measure has it, so its numbers are as they are


def test_sums_are_over_all_words_of_a_measure_also_of_those_that_only_a_newer_zmon_knows():
    steps = steps_of(phase_forward=[1, 2], phase_tokenize=[10, 20], exposed_send=[100, 200], mean_phase_data=[7, 7])
    assert steps.sums("phase") == [11, 22]
    assert steps.sums("exposed") == [100, 200]
    assert steps.sums("received") == [0, 0]
    assert steps.columns_of("phase") == {"forward": "phase_forward", "tokenize": "phase_tokenize"}


@pytest.mark.parametrize(
    ("name", "number"),
    [("phase_data", 0), ("phase_new", 0), ("bytes_received_send", 0), (DURATION, 0), ("samples", -1), ("nic_sent", -1),
     ("device_memory_peak", -1), (SAME_SIZE_SENT, -1), (MEAN_STEPS, 0), ("mean_phase_data", 0), ("mean_flops", -1),
     (START, 0), ("x", 0)],
)  # fmt: skip
def test_absent_column_says_that_nothing_ran_or_that_it_is_unknown(name, number):
    assert absent(name) == number
    assert list(steps_of(lookups=[1, 2]).column(name)) == [number] * 2


def test_mean_has_columns_of_its_own():
    steps = sent(steps_of(**{"samples": [1, 2], f"{MEAN}samples": [3, -1], MEAN_STEPS: [8, 0]}))
    assert list(steps.column(f"{MEAN}samples")) == [3, -1]
    assert list(steps.column(MEAN_STEPS)) == [8, 0]
    assert steps.values("samples") == [1, 2]


def test_joined_parts_have_the_columns_of_all():
    first, second = steps_of(samples=[1, 2]), replace(steps_of(phase_data=[7]), run_uids=("b",))
    joined = Steps.join([first, Steps(), second])
    assert (joined.run_uids, joined.counts) == (("a", "b"), (2, 1))
    assert columns_of(joined) == {STEP: [1, 2, 1], "samples": [1, 2, -1], "phase_data": [0, 0, 7]}


def test_joined_parts_of_one_rank_are_its_steps_one_after_the_other():
    parts = [steps_of(samples=[1, 2]), steps_of(samples=[3]), replace(steps_of(samples=[4]), run_uids=("b",))]
    joined = Steps.join(parts)
    assert (joined.run_uids, joined.counts) == (("a", "b"), (3, 1))
    assert joined.values("samples") == [1, 2, 3, 4]


def test_selected_rows_keep_their_ranks():
    chosen = TWO_RANKS.select([1, 2])
    assert (chosen.run_uids, chosen.counts) == (("a", "b"), (1, 1))
    assert columns_of(chosen) == {STEP: [2, 1], "phase_forward": [20, 30], "samples": [32, -1]}
    assert TWO_RANKS.select([3]).counts == (0, 1)
    assert TWO_RANKS.select([]).counts == (0, 0)
    assert TWO_RANKS.select(range(4)) == TWO_RANKS


def test_steps_of_one_rank_are_its_rows_alone():
    assert columns_of(TWO_RANKS.of_rank("b")) == {STEP: [1, 3], "phase_forward": [30, 40], "samples": [-1, 32]}
    assert TWO_RANKS.of_rank("b").run_uids == ("b",)
    assert TWO_RANKS.of_rank("c") == Steps()


def test_steps_read_in_any_order_are_sorted_and_the_last_row_of_a_step_counts():
    read = RankSteps()
    for step, samples in ((3, 30), (1, 10), (3, 31), (2, 20)):
        read.add(step, {"samples": samples})
    assert columns_of(read.steps("a")) == {STEP: [1, 2, 3], "samples": [10, 20, 31]}
    assert (read.steps("a").run_uids, read.steps("a").counts) == (("a",), (3,))


def test_column_that_some_steps_lack_is_absent_there():
    read = RankSteps()
    read.add(1, {"samples": 32})
    read.add(2, {"phase_data": 7})
    read.add(1, {"phase_data": 5})  # the same step again, without samples
    read.add(3, {"samples": 33})
    steps = read.steps("a")
    assert steps.values("samples") == [None, None, 33]
    assert list(steps.column("phase_data")) == [5, 7, 0]


def test_number_that_no_integer_of_64_bits_holds_can_be_read():
    read = RankSteps()
    read.add(1, {"phase_data": 10**30, "samples": 10**30})
    assert list(read.steps("a").column("phase_data")) == [MAX_NUMBER - 1]
    assert read.steps("a").values("samples") == [None]
