"""Tests of quantile, slope and the threshold for small samples. Results agree with numpy or with published values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zmon.stats import quantile, slope, student


def test_empty_list_has_no_quantile():
    assert quantile([], 0.5) is None


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50), st.floats(0, 1))
def test_quantile_equals_the_result_of_numpy(values, q):
    assert quantile(values, q) == pytest.approx(float(np.quantile(values, q)), rel=1e-9, abs=1e-6)


def test_slope_ignores_an_outlier_and_is_none_if_undefined():
    assert slope([(1, 2.0), (2, 4.0), (-3, -6.0), (1, 900.0)]) == 2.0
    assert slope([(0, 1.0)]) is None
    assert slope([]) is None


@pytest.mark.parametrize(("freedom", "published"), [(10, 5.69), (20, 4.54), (60, 3.96), (1000, 3.73)])
def test_threshold_grows_with_fewer_degrees_of_freedom(freedom, published):
    """Student's t with a probability of 1 in 10,000; for a normal distribution it is 3.719."""
    assert student(3.719, freedom) == pytest.approx(published, rel=0.03)


def test_threshold_is_infinite_without_degrees_of_freedom():
    assert student(4.0, 0.0) == float("inf")
