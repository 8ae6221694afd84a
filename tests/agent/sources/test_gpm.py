"""Tests of the activity of tensor cores and memory, between two samples of a card."""

import pytest

from tests.agent.sources.nvml import NOT_SUPPORTED, UNKNOWN
from zmon.agent.sources.gpu import GpuSource

TENSOR, MEMORY = "gpm.5", "gpm.10"  # answers of the stub: NVML_GPM_METRIC_ANY_TENSOR_UTIL and …_DRAM_BW_UTIL


def read(source):
    """Return the activity of the tensor cores and of the memory of each card."""
    return [(card.tensor_active_ratio, card.memory_active_ratio) for card in source.read().value]


def test_activity_is_known_from_the_second_read_on_and_may_be_zero(fake_nvml):
    fake_nvml.set_answers(("driver", "cards", 2), ("0", TENSOR, 40), ("1", TENSOR, 0), ("0", MEMORY, 25))
    source = GpuSource()
    assert read(source) == [(None, None)] * 2
    assert [read(source) for _ in range(3)] == [[(0.4, 0.25), (0.0, None)]] * 3


def test_card_without_gpm_has_no_activity_and_is_asked_once(fake_nvml):
    source = GpuSource()
    assert [read(source) for _ in range(3)] == [[(None, None)]] * 3
    assert fake_nvml.calls("0", "nvmlGpmQueryDeviceSupport") == 1
    assert fake_nvml.calls("0", "nvmlGpmSampleGet") == 0


@pytest.mark.parametrize("function", ["nvmlGpmQueryDeviceSupport", "nvmlGpmSampleGet"])
def test_card_that_refuses_gpm_hides_nothing_else(fake_nvml, function):
    fake_nvml.set_answers(("0", TENSOR, 40), ("0", function, NOT_SUPPORTED))
    source = GpuSource()
    assert [read(source) for _ in range(2)] == [[(None, None)]] * 2
    assert source.read().value[0].power_watts == 300.0


@pytest.mark.usefixtures("old_nvml")
def test_library_without_gpm_hides_nothing_else():
    source = GpuSource()
    assert [read(source) for _ in range(2)] == [[(None, None)]] * 2
    assert source.read().dropped == ()


def test_activity_is_unknown_for_two_reads_after_a_sample_failed_once(fake_nvml):
    fake_nvml.set_answers(("0", TENSOR, 40))
    source = GpuSource()
    read(source)
    fake_nvml.set_answers(("0", "nvmlGpmSampleGet", UNKNOWN))
    assert read(source) == [(None, None)]
    fake_nvml.reset_answers(("0", "nvmlGpmSampleGet"))
    assert [read(source) for _ in range(2)] == [[(None, None)], [(0.4, None)]]


def test_card_in_mig_mode_is_not_sampled(fake_nvml):
    fake_nvml.set_answers(("0", TENSOR, 40), ("0", "nvmlDeviceGetMigMode", 1))
    source = GpuSource()
    assert [read(source) for _ in range(2)] == [[(None, None)]] * 2
    fake_nvml.set_answers(("0", "nvmlDeviceGetMigMode", 0))
    assert [read(source) for _ in range(2)] == [[(None, None)], [(0.4, None)]]
