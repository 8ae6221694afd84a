"""A fixture that checks many random items, or few: `make test` has few items of each kind, `make test-all` many."""

import pytest

from tests.fuzz.draw import NUM_LONG, NUM_QUICK, seed_of_long_run
from tests.fuzz.running import QUICK_SEED, check_items


@pytest.fixture(params=["few", pytest.param("many", marks=[pytest.mark.slow, pytest.mark.timeout(3600)])])
def amount(request, capsys):
    """Return a seed and a number of items. The seed of the many is new, or that of the environment, and printed."""
    if request.param == "few":
        return QUICK_SEED, NUM_QUICK
    seed = seed_of_long_run()
    with capsys.disabled():
        print(f"FUZZ_SEED={seed}, {NUM_LONG:,} items")
    return seed, NUM_LONG


@pytest.fixture
def check_random(amount):
    """Return a function that calls a check with sources of chance, few or many."""
    return lambda check: check_items(check, *amount)
