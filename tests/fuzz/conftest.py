"""A fixture that runs a check on random items. `make test` checks few items in each test, `make test-all` many."""

import time
import tracemalloc

import pytest

from tests.fuzz.draw import NUM_LONG, NUM_QUICK, draws, seed_of_long_run

QUICK_SEED = 19
MAX_SECONDS = 10.0  # processor time of one item
MAX_BYTES = 64 << 20  # memory that one item may allocate at a time
_TRACE_EVERY = 50  # items: memory is traced for one of them only, because tracing is slow


@pytest.fixture(params=["few", pytest.param("many", marks=[pytest.mark.slow, pytest.mark.timeout(3600)])])
def seed_and_number(request, capsys):
    """Return a seed and a number of items. The seed of a long run is printed, so that the run can be repeated."""
    if request.param == "few":
        return QUICK_SEED, NUM_QUICK
    seed = seed_of_long_run()
    with capsys.disabled():
        print(f"FUZZ_SEED={seed}, {NUM_LONG:,} items")
    return seed, NUM_LONG


@pytest.fixture
def check_random(seed_and_number):
    """Return a function that calls a check once for each item, with a random generator."""
    return lambda check: check_items(check, *seed_and_number)


def check_items(check, seed, number):
    """Call the check with a random generator for each item. An error has the seed and the item."""
    for index, (name, chance) in enumerate(draws(seed, number)):
        begin = time.process_time()
        is_traced = index % _TRACE_EVERY == 0
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
