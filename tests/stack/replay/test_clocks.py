"""Tests of the table of times: no number of an agent's answers is forgotten, and each kind moves as it should."""

from dataclasses import replace

import pytest

from tests.stack.replay.numbers import fields_with_numbers, filled, types_in
from zmon.schema.api import RankEvidence, Suspicion
from zmon.schema.api.agent import AgentReport
from zmon.schema.steps import SAME_SIZE_SENT, START, STEP, Steps
from zmon.stack.replay.clocks import KINDS, Loop, later_steps, move

ANSWERS = (AgentReport, RankEvidence, Suspicion)
TYPES = {cls for answer in ANSWERS for cls in types_in(answer) if fields_with_numbers(cls)}
LATER = 1000.0  # seconds by which an answer is moved
NUMBER = 100  # the value of every number in the answer that is moved
ROUNDS, SECONDS = 2, 30.0  # the rounds that were played, and the length of each
BEFORE = 50  # every number at the start of the loop
AFTER = BEFORE + 30  # at its end: an age grew by all seconds of the round
RISE = ROUNDS * (AFTER - BEFORE)  # of counts and ages
MOVED = {"date": NUMBER + LATER, "count": NUMBER, "age": NUMBER, "value": NUMBER}
MOVED_AFTER_ROUNDS = {"date": NUMBER + LATER + RISE, "count": NUMBER + RISE, "age": NUMBER + RISE, "value": NUMBER}


def rows():
    """Return class, field and kind of each row of the table."""
    return [
        (cls, name, kind) for cls, kinds in KINDS.items() for kind, names in kinds.items() for name in names.split()
    ]


def numbers_in(value):
    """Return the numbers of one field, which may be a tuple or a mapping."""
    if isinstance(value, dict):
        return [number for item in value.values() for number in numbers_in(item)]
    if isinstance(value, tuple):
        return [number for item in value for number in numbers_in(item)]
    return [] if isinstance(value, str | bytes) else [value]


def test_every_number_of_an_answer_has_one_kind():
    """If it fails: add the new field to KINDS in zmon/stack/replay/clocks.py, as a date, a count, an age or a value."""
    in_table = sorted((cls.__name__, name) for cls, name, _ in rows())
    assert in_table == sorted((cls.__name__, name) for cls in TYPES for name in fields_with_numbers(cls))


@pytest.mark.parametrize("cls", [cls for cls in KINDS if cls is not Steps], ids=lambda cls: cls.__name__)
def test_each_number_moves_as_its_kind(cls):
    value = filled(cls, NUMBER)
    loop = Loop(filled(cls, BEFORE), filled(cls, AFTER), ROUNDS, SECONDS)
    moved, after_rounds = move(value, LATER), move(value, LATER, loop)
    for _, name, kind in (row for row in rows() if row[0] is cls):
        assert {*numbers_in(getattr(moved, name))} == {MOVED[kind]}, name
        assert {*numbers_in(getattr(after_rounds, name))} == {MOVED_AFTER_ROUNDS[kind]}, name


def test_whole_report_moves_with_everything_inside():
    report = filled(AgentReport, NUMBER)
    played = move(report, LATER)
    assert played.ranks[0].start == played.time == NUMBER + LATER
    assert played.ranks[0].last_words.time == played.sample.kernel.events[0].time == NUMBER + LATER
    assert move(played, -LATER) == report


@pytest.mark.parametrize(
    ("name", "first", "last", "expected"),
    [
        pytest.param("stopped_seconds", 5.0, 35.0, 5.0 + 2 * 30.0, id="it grew all the time"),
        pytest.param("step_seconds", 0.2, 0.1, 5.0, id="a step began meanwhile"),
        pytest.param("step_seconds", 0.1, 0.2, 5.0, id="it grew by less than the time"),
        pytest.param("stopped_seconds", None, 3.0, 5.0, id="it was unknown at first"),
    ],
)
def test_age_grows_in_later_rounds_only_if_it_grew_in_the_whole_round(name, first, last, expected):
    state = filled(AgentReport, 1).ranks[0]

    def aged(seconds):
        return replace(state, **{name: seconds})

    loop = Loop(aged(first), aged(last), rounds=2, seconds=30.0)
    assert getattr(move(aged(5.0), 0.0, loop), name) == expected


def test_later_steps_have_later_numbers_starts_and_sent_bytes():
    steps = Steps.from_rows(
        (STEP, START, SAME_SIZE_SENT, "samples"), {"uid-0": [(7, 10**9, 64, 32), (8, 2 * 10**9, 96, 32)]}
    )
    later = later_steps(steps, num_steps=100, seconds=3.5, sent_bytes=3200)
    assert [*later.column(STEP)] == [107, 108]
    assert [*later.column(START)] == [4_500_000_000, 5_500_000_000]
    assert [*later.column(SAME_SIZE_SENT)] == [3264, 3296]
    assert [*later.column("samples")] == [32, 32]
