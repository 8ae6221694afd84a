"""Tests of how often a hub searches for reference cycles."""

import gc

import pytest

from bench.replay import record, replay
from zmon.hub.memory import limit_cycle_searches


@pytest.fixture(autouse=True)
def _restored():
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def test_hub_searches_less_often_the_more_ranks_it_has():
    gc.set_threshold(700)
    thresholds = []
    for num_ranks in (0, 16_384, 100_000, 64):
        limit_cycle_searches(num_ranks)
        thresholds.append(gc.get_threshold()[0])
    assert thresholds == [100_000, 524_288, 3_200_000, 3_200_000]  # never more often than before


def test_hub_of_many_ranks_makes_its_passes_without_a_search(tmp_path):
    gc.set_threshold(100_000)
    path = tmp_path / "stream"
    record(path, 8192, 4, 5.0)
    searches = []
    gc.callbacks.append(lambda phase, info: searches.append(info) if phase == "stop" else None)
    try:
        replay(path, 8192, tmp_path)
    finally:
        gc.callbacks.pop()
    assert len(searches) <= 1  # in the first pass
