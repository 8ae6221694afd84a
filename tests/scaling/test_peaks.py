"""Tests of the peaks of devices: whose name matches which datasheet, and the peak of work in several dtypes."""

import pytest

from zmon.scaling.peaks import DATASHEETS, DevicePeaks, peaks_of, processors_name


@pytest.mark.parametrize(
    ("device", "bfloat16", "memory"),
    [
        ("NVIDIA A100-SXM4-80GB", 312e12, 2.039e12),
        ("NVIDIA A100-PCIE-40GB", 312e12, 1.555e12),
        ("NVIDIA A100 80GB PCIe", 312e12, 1.935e12),
        ("NVIDIA H100 80GB HBM3", 989.5e12, 3.35e12),
        ("NVIDIA H100 PCIe", 756.5e12, 2.0e12),
        ("NVIDIA H100 NVL", 835.5e12, 3.9e12),
        ("NVIDIA H200", 989.5e12, 4.8e12),
        ("NVIDIA B200", 2250e12, 8.0e12),
        ("NVIDIA L4", 121e12, 0.3e12),
        ("NVIDIA L40S", 362.05e12, 0.864e12),
        ("NVIDIA A10", 125e12, 0.6e12),
        ("AMD Instinct MI300X", 1307.4e12, 5.3e12),
    ],
)
def test_device_has_the_dense_rates_of_its_datasheet(device, bfloat16, memory):
    peaks = peaks_of(device, {})
    assert (peaks.flops["bfloat16"], peaks.memory_bandwidth) == (pytest.approx(bfloat16), pytest.approx(memory))


@pytest.mark.parametrize(
    "device", ["", "cpu", "NVIDIA A10G", "NVIDIA H100", "NVIDIA H200 NVL", "NVIDIA L40", "NVIDIA B2000"]
)
def test_unknown_device_has_no_peak(device):
    assert peaks_of(device, {}) is None


def test_volta_and_turing_have_no_bfloat16():
    for device in ("Tesla V100-SXM2-16GB", "Tesla T4"):
        assert "bfloat16" not in peaks_of(device, {}).flops


def test_peaks_that_the_site_measured_replace_the_datasheet():
    peaks = DevicePeaks({"bfloat16": 1e12})
    assert peaks_of("NVIDIA H200", {"NVIDIA H200": peaks}) is peaks
    assert peaks_of("NVIDIA H200 of ours", {"NVIDIA H200": peaks}) is None


def test_each_datasheet_is_named_and_has_possible_rates():
    for pattern, peaks in DATASHEETS:
        assert peaks.source, pattern
        assert all(1e12 < rate < 1e16 for rate in peaks.flops.values()), pattern
        assert peaks.flops["float32"] <= max(peaks.flops.values())
        assert peaks.memory_bandwidth is None or 1e11 < peaks.memory_bandwidth < 1e13, pattern


def test_dtypes_take_their_shares_each_at_its_own_peak():
    peaks = DevicePeaks({"bfloat16": 100.0, "float32": 10.0})
    assert peaks.flops_of({"bfloat16": 1.0}) == 100
    # 90 operations take 0.9 s, 10 take 1 s
    assert peaks.flops_of({"bfloat16": 0.9, "float32": 0.1}) == pytest.approx(100 / 1.9)
    assert peaks.flops_of({"bfloat16": 90, "float32": 10}) == pytest.approx(100 / 1.9)


@pytest.mark.parametrize(
    "shares", [{}, {"float64": 1.0}, {"bfloat16": 0.5, "float64": 0.5}, {"bfloat16": 0.0}], ids=str
)
def test_peak_of_unknown_work_is_unknown(shares):
    assert DevicePeaks({"bfloat16": 100.0}).flops_of(shares) is None


def test_processors_have_their_model_and_number_as_name():
    cpuinfo = "processor\t: 0\nmodel name\t: Xeon(R)  Gold\n\nprocessor\t: 1\nmodel name\t: Xeon(R)  Gold\n"
    assert processors_name(cpuinfo) == "Xeon(R) Gold, 2 processors"
    assert processors_name("processor\t: 0\nCPU part\t: 0xd40\n") == ""
