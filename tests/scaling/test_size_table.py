"""Sizes are what a person may name, and no what-if makes a number that no step can have."""

import pytest

from tests.scaling.test_fit import OPS, point
from zmon.errors import UsageError
from zmon.scaling.fit import fit
from zmon.scaling.predict import Prediction
from zmon.scaling.size_table import find, numbers

MODEL = fit([point(4, 2048), point(8, 2048), point(8, 4096)], OPS)


def test_sizes_are_numbers_with_commas():
    assert numbers("--ranks", "8, 1,8") == [8, 1, 8]


@pytest.mark.parametrize("words", ["", ",", "4,", "0", "-1", "4.0", "1e3", str((1 << 31) + 1), "9" * 5000])
def test_what_is_no_size_is_refused(words):
    with pytest.raises(UsageError, match="no list of sizes"):
        numbers("--ranks", words)


def test_largest_size_that_can_be_named_is_predicted():
    (most,) = numbers("--ranks", str(1 << 31))
    (size,) = find(MODEL, [(most, 512 * most)])
    assert isinstance(size.step, Prediction)
    assert size.what_if is None


@pytest.mark.parametrize("what_ifs", [["net=1e-300"] * 2, ["own=1e-300", "wire=1e-300", "latency=1e-300"] * 2])
def test_factors_beyond_all_numbers_make_it_unknown_and_the_step_as_it_is_stays(what_ifs):
    (size,) = find(MODEL, [(16, 8192)], what_ifs)
    assert size.step == MODEL.at(16, 8192)
    assert "no step can have" in size.what_if.reason
