"""Tests of the JSON file with measured links, and of the YAML file with the peaks of a site's devices."""

from dataclasses import replace

import pytest

from tests.scaling.test_bandwidth import TWO_HOSTS
from zmon.errors import UsageError
from zmon.offline.measured_files import read_links, read_peaks, write_links, write_peaks
from zmon.scaling.bandwidth import links
from zmon.scaling.peaks import DevicePeaks


def test_file_keeps_the_devices_that_it_had(tmp_path):
    path = tmp_path / "peaks.yaml"
    old, new = DevicePeaks({"float32": 1e12}, None, "by hand"), DevicePeaks({"float32": 2e12}, 3e10, "measured")
    write_peaks(path, {"old one": old})
    write_peaks(path, {"Xeon, 2 processors": new})
    assert read_peaks(path) == {"old one": old, "Xeon, 2 processors": new}


def test_person_may_write_rates_with_an_exponent(tmp_path):
    """YAML 1.1 takes 1.2e11 for a text."""
    path = tmp_path / "peaks.yaml"
    path.write_text("GPU X:\n  flops: {bfloat16: 1.2e11}\n")
    assert read_peaks(path) == {"GPU X": DevicePeaks({"bfloat16": 1.2e11})}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("GPU X: 3", "Expected `object`"),
        ("GPU X: {flops: {float32: fast}}", "Expected `float`"),
        ("GPU X: {flops: {float32: 0}}", "GPU X has a rate that is not possible"),
        ("GPU X: {flops: {float32: .nan}}", "GPU X has a rate that is not possible"),
        ("GPU X: {flops: {}, memory_bandwidth: -1}", "GPU X has a rate that is not possible"),
        ("GPU X: [", "while parsing"),
        ("GPU X: {flops: {}}\nGPU X: {flops: {}}", "GPU X is given twice"),
        ("GPU X: {memory_bandwidth: 1}", "missing required field"),
    ],
)
def test_file_that_cannot_be_used_is_refused(tmp_path, text, why):
    path = tmp_path / "peaks.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=f"cannot use .*{why}"):
        read_peaks(path)


def test_missing_file_says_so(tmp_path):
    with pytest.raises(UsageError, match="No such file"):
        read_peaks(tmp_path / "none.yaml")


def test_written_file_of_links_is_read_back(tmp_path):
    write_links(tmp_path / "links.json", TWO_HOSTS, 1.8e9)
    assert links(read_links(tmp_path / "links.json")) == links(TWO_HOSTS)
    assert [path.name for path in tmp_path.iterdir()] == ["links.json"]


def test_duration_of_zero_is_refused(tmp_path):
    broken = replace(TWO_HOSTS, timed=[replace(TWO_HOSTS.timed[0], seconds=0.0)])
    write_links(tmp_path / "links.json", broken, 1.8e9)
    with pytest.raises(UsageError, match="it has a duration or size that is not valid"):
        read_links(tmp_path / "links.json")


@pytest.mark.parametrize("damage", [None, "", "{}", '{"schema": 1}'])
def test_invalid_file_of_links_is_refused(tmp_path, damage):
    if damage is not None:
        (tmp_path / "links.json").write_text(damage)
    with pytest.raises(UsageError, match="zmon bench-comm --out"):
        read_links(tmp_path / "links.json")
