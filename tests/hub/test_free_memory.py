"""Tests of the memory that the hub gives back to the kernel every ten seconds."""

import ctypes

import psutil
import pytest

from zmon.hub.memory import FreeMemory, trim_of_libc

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
    assert process.memory_info().rss < before - 500 * BLOCK
    assert len(in_use) == 100  # they are in use until here
