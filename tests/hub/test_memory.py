"""Tests of the hub's memory: free memory goes back to the kernel, and reference cycles are searched for seldom."""

import ctypes
import gc

import psutil
import pytest

from bench.replay import record, replay
from zmon.hub.memory import FreeMemory, limit_cycle_searches, trim_of_libc

BLOCK = 100_000  # below the size that glibc maps on its own, which it gives back at once


def test_memory_is_given_back_every_ten_seconds():
    now = [0.0]  # seconds
    calls = []
    memory = FreeMemory(calls.append, lambda: now[0])
    for _ in range(45):
        memory.give_back()
        now[0] += 1.0
    assert calls == [0, 0, 0, 0]  # after 10, 20, 30 and 40 s; 0: malloc_trim gives all of it back


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="this C library has no malloc_trim")
def test_free_memory_between_blocks_in_use_is_no_longer_resident():
    now = [0.0]  # seconds
    process = psutil.Process()
    memory = FreeMemory(trim_of_libc(), lambda: now[0])
    blocks = [bytearray(BLOCK) for _ in range(1000)]
    in_use = blocks[::10]
    blocks.clear()
    before = process.memory_info().rss
    now[0] = 60.0
    memory.give_back()
    assert process.memory_info().rss < before - 500 * BLOCK  # 900 blocks are free, in pages that others may share
    assert len(in_use) == 100  # they are in use until here


@pytest.fixture
def searches_of_python():
    """Restore the interval of Python's searches for cycles after the test."""
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


@pytest.mark.usefixtures("searches_of_python")
def test_hub_searches_less_often_the_more_ranks_it_has():
    gc.set_threshold(700)
    thresholds = []
    for num_ranks in (0, 16_384, 100_000, 64):
        limit_cycle_searches(num_ranks)
        thresholds.append(gc.get_threshold()[0])
    assert thresholds == [100_000, 524_288, 3_200_000, 3_200_000]  # never more often than before


@pytest.mark.usefixtures("searches_of_python")
def test_hub_of_many_ranks_makes_its_passes_without_a_search(tmp_path):
    gc.set_threshold(100_000)
    path = tmp_path / "stream"
    record(path, 8192, passes=3, every=5.0)
    searches = []
    gc.callbacks.append(lambda phase, info: searches.append(info) if phase == "stop" else None)
    try:
        replay(path, 8192, tmp_path)
    finally:
        gc.callbacks.pop()
    assert len(searches) <= 1  # in the first pass
