"""Tests of the tables of the trainer benchmark, with real ranks and a tiny model."""

import pytest

from bench import trainer
from bench.dlrm import Shape
from bench.trainer_job import variants

pytestmark = pytest.mark.e2e
SHAPE = Shape(pooling=2, tables=3, rows=50, dim=4, global_batch=8, bottom=(5,), top=(6,))


@pytest.mark.slow  # it starts ranks that train with every variant
def test_speed_has_a_line_for_the_floor_and_every_variant() -> None:
    about, _, *lines = trainer.speed(SHAPE, 1)
    assert about.startswith("pooling 2; the planner's choice for `ours`: ")
    assert [line.split("  ")[1] for line in lines[3:]] == ["plain torch", *variants(SHAPE.config())]
    assert all("floor" in line for line in lines[:3])


@pytest.mark.slow  # it starts ranks, as the other test does
def test_memory_has_peak_and_prediction_of_each_rank() -> None:
    rows = list(trainer.memory(SHAPE, 3))
    assert len(rows) == 2 * 3
    peak, predicted, over = (row.value for row in rows[:3])
    assert abs((peak / predicted - 1) * 100 - over) < 0.01
