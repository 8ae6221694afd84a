"""Tests of the memory that the hub gives back to the kernel every ten seconds."""

import ctypes

import psutil
import pytest

from zmon.hub.memory import FreeMemory, trim_of_libc

BLOCK = 100_000  # below the size that glibc maps on its own, which it gives back at once


class Clock:
    def __init__(self):
        self.seconds = 0.0

    def __call__(self):
        return self.seconds


def test_memory_is_given_back_every_ten_seconds():
    clock, calls = Clock(), []
    memory = FreeMemory(calls.append, clock)
    for _ in range(45):
        memory.give_back()
        clock.seconds += 1.0
    assert calls == [0, 0, 0, 0]


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="this C library has no malloc_trim")
def test_free_memory_between_blocks_in_use_is_no_longer_resident():
    clock, process = Clock(), psutil.Process()
    memory = FreeMemory(trim_of_libc(), clock)
    blocks = [bytearray(BLOCK) for _ in range(1000)]
    in_use = blocks[::10]
    blocks.clear()
    before = process.memory_info().rss
    clock.seconds = 60.0
    memory.give_back()
    assert process.memory_info().rss < before - 500 * BLOCK
    assert len(in_use) == 100
