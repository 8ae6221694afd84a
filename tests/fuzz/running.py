"""Runs a check on random items, each with a limit of time and memory."""

from __future__ import annotations

import random
import time
import tracemalloc
from collections.abc import Callable

from tests.fuzz.draw import draws

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
