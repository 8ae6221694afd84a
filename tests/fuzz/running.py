"""Runs a check on many random items: few in `make test`, many in `make test-all`, and prints the seed of the many."""

from __future__ import annotations

import random
import time
import tracemalloc
from collections.abc import Callable

import pytest

from tests.fuzz.draw import NUM_LONG, NUM_QUICK, draws, seed_of_long_run

QUICK_SEED = 19
MAX_SECONDS = 10.0  # of one item, on a busy machine
MAX_BYTES = 64 << 20  # that one item may allocate at a time
_TRACED = 50  # memory is traced for one item of so many, because tracing is slow


def check_items(check: Callable[[random.Random], None], seed: int, number: int) -> None:
    """Call the check with many sources of chance. Its error names the seed and the item."""
    for index, (name, chance) in enumerate(draws(seed, number)):
        begin = time.process_time()
        is_traced = index % _TRACED == 0
        if is_traced:
            tracemalloc.start()
        try:
            check(chance)
            peak = tracemalloc.get_traced_memory()[1] if is_traced else 0
        except Exception as error:
            raise AssertionError(f"{name}: {type(error).__name__}: {error}") from error
        finally:
            if is_traced:
                tracemalloc.stop()
        assert peak < MAX_BYTES, f"{name}: {peak:,} bytes"
        assert time.process_time() - begin < MAX_SECONDS, name


def check_few(check: Callable[[random.Random], None]) -> None:
    """Check the items that `make test` checks."""
    check_items(check, QUICK_SEED, NUM_QUICK)


def check_many(check: Callable[[random.Random], None], capsys: pytest.CaptureFixture[str]) -> None:
    """Check many items with a new seed, or the one of the environment, and print it."""
    seed = seed_of_long_run()
    with capsys.disabled():
        print(f"FUZZ_SEED={seed}, {NUM_LONG:,} items")
    check_items(check, seed, NUM_LONG)
