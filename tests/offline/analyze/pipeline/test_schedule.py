"""Tests of the replay of a recorded step: the order of operations, waiting, and what cannot be replayed."""

import pytest

from zmon.offline.analyze.pipeline import Operation, Schedule


def replayed(*operations, **seconds):
    """Return the duration of the step, with other durations for the kinds in `seconds`."""
    schedule = Schedule(operations)
    return schedule.replay(
        [seconds.get(o.kind, default) for o, default in zip(schedule.operations, schedule.seconds, strict=True)]
    )


OVERLAPPING = Operation(0, "a", 0.0, 2.0), Operation(0, "b", 0.5, 1.0), Operation(0, "c", 2.0, 3.0)


@pytest.mark.parametrize(
    ("operations", "changes", "seconds"),
    [
        pytest.param((Operation(0, "a", 0.0, 1.0), Operation(0, "b", 1.0, 3.0)), {}, 3.0, id="one after the other"),
        pytest.param((Operation(0, "a", 0.0, 1.0), Operation(0, "b", 1.0, 3.0)), {"a": 0.5}, 2.5, id="a is quicker"),
        pytest.param((Operation(0, "a", 0.0, 1.0), Operation(0, "b", 1.5, 2.0)), {}, 1.5, id="pause left out"),
        pytest.param((Operation(0, "a", 0.0, 1.0001), Operation(0, "b", 1.0, 2.0)), {}, 2.0, id="rounding"),
        pytest.param(OVERLAPPING, {}, 3.0, id="overlap"),
        pytest.param(OVERLAPPING, {"b": 2.5}, 3.5, id="c follows both"),
        pytest.param((), {}, 0.0, id="nothing"),
    ],
)
def test_operations_of_a_rank_are_replayed(operations, changes, seconds):
    assert replayed(*operations, **changes) == pytest.approx(seconds, abs=0.001)


def test_group_starts_when_its_last_rank_is_ready():
    operations = (
        Operation(0, "a", 0.0, 3.0), Operation(1, "b", 0.0, 1.0),
        Operation(0, "sync", 3.0, 3.5, "g"), Operation(1, "sync", 1.0, 3.5, "g"),
    )  # fmt: skip
    schedule = Schedule(operations)
    assert schedule.seconds == pytest.approx([3.0, 1.0, 0.5, 0.5])
    assert replayed(*operations, a=1.5) == pytest.approx(2.0)


def test_send_and_receive_that_were_issued_together_overlap_however_short_they_are():
    operations = [Operation(0, "send", 1.0, 1.0004, "x"), Operation(0, "recv", 1.0, 1.0004, "y")]
    operations += [Operation(1, "recv", 1.0, 1.0004, "x"), Operation(1, "send", 1.0, 1.0004, "y")]
    assert Schedule(operations).replay([1.0, 2.0, 1.0, 2.0]) == pytest.approx(2.0)


def test_order_with_a_cycle_is_refused():
    """Rank 0 has x before y, and rank 1 has y before x."""
    operations = [Operation(0, "a", 0, 1, "x"), Operation(0, "b", 1, 2, "y")]
    operations += [Operation(1, "b", 0, 1, "y"), Operation(1, "a", 1, 2, "x")]
    with pytest.raises(ValueError, match="wait for each other"):
        Schedule(operations)
