"""Tests of the YAML file with the peaks of a site's devices."""

import pytest

from zmon.errors import UsageError
from zmon.offline.peak_bench import read, write
from zmon.scaling.peaks import DevicePeaks


def test_file_keeps_the_devices_that_it_had(tmp_path):
    path = tmp_path / "peaks.yaml"
    old, new = DevicePeaks({"float32": 1e12}, None, "by hand"), DevicePeaks({"float32": 2e12}, 3e10, "measured")
    write(path, {"old one": old})
    write(path, {"Xeon, 2 processors": new})
    assert read(path) == {"old one": old, "Xeon, 2 processors": new}


def test_person_may_write_rates_with_an_exponent(tmp_path):
    """YAML 1.1 takes 1.2e11 for a text."""
    path = tmp_path / "peaks.yaml"
    path.write_text("GPU X:\n  flops: {bfloat16: 1.2e11}\n")
    assert read(path) == {"GPU X": DevicePeaks({"bfloat16": 1.2e11})}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("GPU X: 3", "Expected `object`"),
        ("GPU X: {flops: {float32: fast}}", "Expected `float`"),
        ("GPU X: {flops: {float32: 0}}", "GPU X has a rate that is not possible"),
        ("GPU X: {flops: {float32: .nan}}", "GPU X has a rate that is not possible"),
        ("GPU X: {flops: {}, memory_bandwidth: -1}", "GPU X has a rate that is not possible"),
        ("GPU X: [", "while parsing"),
        ("GPU X: {memory_bandwidth: 1}", "missing required field"),
    ],
)
def test_file_that_cannot_be_used_is_one_line(tmp_path, text, why):
    path = tmp_path / "peaks.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match="cannot use") as error:
        read(path)
    assert why in str(error.value)
    assert "\n" not in str(error.value)


def test_missing_file_says_so(tmp_path):
    with pytest.raises(UsageError, match="No such file"):
        read(tmp_path / "none.yaml")
