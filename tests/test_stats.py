"""Nothing has no quantile; the rest is numpy's default."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zmon.stats import quantile


def test_nothing_has_no_quantile():
    assert quantile([], 0.5) is None


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50), st.floats(0, 1))
def test_quantile_is_numpys(values, q):
    assert quantile(values, q) == pytest.approx(float(np.quantile(values, q)), rel=1e-9, abs=1e-6)
