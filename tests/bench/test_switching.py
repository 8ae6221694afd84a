"""Test of the overhead benchmark: the cost that it computes from blocks of steps."""

import pytest

from bench.switching import MODES, costs

MICROSECOND = 1e-6


def results(extra, rounds=40):
    """Return what a rank writes. A mode adds its µs in `extra` to processor time, and twice as much to wall-clock."""
    order = [*MODES, *reversed(MODES)] * (rounds // 2)
    blocks = [
        {"mode": mode, "wall": (1000 + 2 * extra.get(mode, 0)) * MICROSECOND,
         "processor": (900 + extra.get(mode, 0) + number % 4) * MICROSECOND, "reported": 20 * MICROSECOND}
        for number, mode in enumerate(order)
    ]  # fmt: skip
    return {"blocks": blocks}


def test_cost_is_the_difference_from_neighbouring_blocks_without_zmon():
    first, second = costs([results({"watched": 30, "idle": 5}), results({"watched": 10})])
    assert (first.rank, second.rank) == (0, 1)
    assert first.step == pytest.approx(1000 * MICROSECOND)
    assert first.processor.value == pytest.approx(30 * MICROSECOND, abs=3 * MICROSECOND)
    assert first.processor.low <= first.processor.value <= first.processor.high
    assert first.processor_floor.value == pytest.approx(0, abs=2 * MICROSECOND)
    assert first.wall.value == pytest.approx(60 * MICROSECOND)
    assert first.wall_floor.value == pytest.approx(0)
    assert first.idle.value == pytest.approx(5 * MICROSECOND, abs=3 * MICROSECOND)
    assert first.reported == pytest.approx(20 * MICROSECOND)
    assert second.processor.value == pytest.approx(10 * MICROSECOND, abs=3 * MICROSECOND)
