"""Tests of the table of predicted sizes, and of the options that list the sizes."""

import pytest

from tests.scaling.test_fit import OPS, point
from zmon.errors import UsageError
from zmon.scaling.fit import fit
from zmon.scaling.predict import PredictedStep
from zmon.scaling.size_table import parse_sizes, predict_sizes

MODEL = fit([point(4, 2048), point(8, 2048), point(8, 4096)], OPS)


def test_sizes_are_parsed_from_numbers_with_commas():
    assert parse_sizes("--ranks", "8, 1,8") == [8, 1, 8]


@pytest.mark.parametrize("words", ["", ",", "4,", "0", "-1", "4.0", "1e3", str((1 << 31) + 1), "9" * 5000])
def test_invalid_size_is_refused(words):
    with pytest.raises(UsageError, match="not a list of sizes"):
        parse_sizes("--ranks", words)


def test_largest_allowed_size_is_predicted():
    (most,) = parse_sizes("--ranks", str(1 << 31))
    (size,) = predict_sizes(MODEL, [(most, 512 * most)])
    assert isinstance(size.step, PredictedStep)
    assert size.what_if is None


@pytest.mark.parametrize("what_ifs", [["net=1e-300"] * 2, ["own=1e-300", "wire=1e-300", "latency=1e-300"] * 2])
def test_what_if_without_a_finite_result_is_unknown(what_ifs):
    (size,) = predict_sizes(MODEL, [(16, 8192)], what_ifs)
    assert size.step == MODEL.predict(16, 8192)
    assert "zero or not finite" in size.what_if.reason
