"""Tests of the GPU source with a lost GPU, a reloaded driver or a card in MIG mode. Other cards are still read."""

import pynvml
import pytest

from tests.agent.sources.nvml import DRIVER_NOT_LOADED, GPU_IS_LOST, NOT_SUPPORTED, UNKNOWN
from zmon.agent.sources.gpu import GpuSource
from zmon.schema.host import GpuSample


@pytest.fixture
def fake_nvml(fake_nvml):
    """Return a driver with three cards."""
    fake_nvml.set_answers(("driver", "cards", 3))
    return fake_nvml


def lost_sample(gpu, uuid="", **fixed_values):
    """Return the sample of a lost card with these values, which were read before the loss."""
    return GpuSample(gpu=gpu, uuid=uuid, lost=True, **fixed_values)


def test_lost_card_keeps_its_fixed_values_and_hides_no_other(fake_nvml):
    source = GpuSource()
    source.read()
    fake_nvml.set_answers(("1", "lost", 1), ("driver", "xids", "1:79"))
    for _ in range(2):  # the second read reports it again
        reading = source.read()
        first, second, third = reading.value
        assert first.power_watts == third.power_watts == 300.0
        fixed = {
            "name": "NVIDIA H200",
            "pci": "0000:3c:00.0",
            "minor": 1,
            "nics": ("mlx5_0 of 0000:3c:00.0",),
            "xid_errors": {79: 1},
        }
        assert second == lost_sample("1", uuid="GPU-1", **fixed)
        assert reading.dropped == ()


def test_card_lost_before_the_agent_started_is_reported_without_fixed_values(fake_nvml):
    fake_nvml.set_answers(("1", "lost", 1))
    assert GpuSource().read().value[1] == lost_sample("1")


def test_lost_card_costs_a_single_call_per_read(fake_nvml):
    fake_nvml.set_answers(("1", "lost", 1))
    source = GpuSource()
    source.read()
    before = fake_nvml.calls("1")
    source.read()
    assert fake_nvml.calls("1") == before + 1


@pytest.mark.parametrize(
    "function", ["nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetUUID", "nvmlDeviceGetName", "nvmlDeviceGetFieldValues"]
)
def test_card_is_lost_if_any_call_reports_a_lost_gpu(fake_nvml, function):
    fake_nvml.set_answers(("1", function, GPU_IS_LOST))
    assert [card.lost for card in GpuSource().read().value] == [False, True, False]


def test_recovered_card_is_read_again(fake_nvml):
    source = GpuSource()
    fake_nvml.set_answers(("1", "lost", 1))
    source.read()
    fake_nvml.reset_answers(("1", "lost"))
    assert source.read().value[1].power_watts == 300.0


def test_card_whose_values_all_fail_is_not_lost(fake_nvml):
    fake_nvml.set_answers(("1", "nvmlDeviceGetPowerUsage", UNKNOWN), ("1", "nvmlDeviceGetFieldValues", UNKNOWN))
    assert [card.lost for card in GpuSource().read().value] == [False, False, False]


def test_cards_are_read_again_after_the_driver_was_reloaded(fake_nvml):
    source = GpuSource()
    fake_nvml.set_answers(("0", "nvmlDeviceGetPowerUsage", NOT_SUPPORTED))
    assert source.read().value[0].power_watts is None
    fake_nvml.set_answers(("driver", "error", DRIVER_NOT_LOADED))
    for _ in range(2):  # a driver that was loaded before is a failure, not absent
        with pytest.raises(pynvml.NVMLError, match="Driver Not Loaded"):
            source.read()
    assert fake_nvml.calls("driver", "nvmlShutdown") == 1
    fake_nvml.reset_answers(("driver", "error"), ("0", "nvmlDeviceGetPowerUsage"))
    fake_nvml.set_answers(("driver", "cards", 2), ("driver", "xids", "1:48"))
    reading = source.read()
    assert [card.power_watts for card in reading.value] == [300.0, 300.0]
    assert reading.value[1].xid_errors == {48: 1}


def test_library_that_was_shut_down_is_initialized_again(fake_nvml):
    source = GpuSource()
    source.read()
    pynvml.nvmlShutdown()
    with pytest.raises(pynvml.NVMLError, match="Uninitialized"):
        source.read()
    assert len(source.read().value) == 3


def test_mig_instances_have_separate_samples(fake_nvml):
    fake_nvml.set_answers(
        ("1", "nvmlDeviceGetMigMode", 1),
        ("1", "nvmlDeviceGetUtilizationRates", NOT_SUPPORTED),
        *((f"1:{instance}", "nvmlDeviceGetUUID", f"MIG-{instance}") for instance in (0, 3)),
        ("1:3", "nvmlDeviceGetMemoryInfo", 5),
        ("1:3", "pids", "42"),
        ("1", "pids", "42"),
    )
    samples = {sample.gpu: sample for sample in GpuSource().read().value}
    assert list(samples) == ["0", "1", "1:0", "1:3", "2"]
    assert (samples["1"].mig, samples["1"].utilization_ratio, samples["1"].pids) == (True, None, (42,))
    assert samples["1:3"] == GpuSample(
        gpu="1:3", uuid="MIG-3", name="NVIDIA H200", pci="0000:3c:00.0", memory_used_bytes=5, memory_total_bytes=1000,
        pids=(42,), nics=("mlx5_0 of 0000:3c:00.0",),
    )  # fmt: skip


def test_card_that_leaves_mig_mode_shows_all_values_again(fake_nvml):
    in_mig_mode = (("0", "nvmlDeviceGetMigMode", 1), ("0", "nvmlDeviceGetUtilizationRates", NOT_SUPPORTED))
    source = GpuSource()
    fake_nvml.set_answers(*in_mig_mode)
    source.read()
    fake_nvml.reset_answers(*(answer[:2] for answer in in_mig_mode))
    assert source.read().value[0].utilization_ratio == 0.5


def test_new_mig_instance_replaces_the_previous_instance(fake_nvml, monkeypatch):
    fake_nvml.set_answers(
        ("0", "nvmlDeviceGetMigMode", 1), *((f"0:{n}", "nvmlDeviceGetUUID", f"MIG-{n}") for n in (0, 6))
    )
    source = GpuSource()
    source.read()
    handle_of = pynvml.nvmlDeviceGetMigDeviceHandleByIndex
    monkeypatch.setattr(pynvml, "nvmlDeviceGetMigDeviceHandleByIndex", lambda card, n: handle_of(card, 6 - n))
    assert [card.uuid for card in source.read().value[1:3]] == ["MIG-6", "MIG-0"]


def test_mig_instance_that_cannot_be_read_is_reported_by_name(fake_nvml):
    fake_nvml.set_answers(
        ("0", "nvmlDeviceGetMigMode", 1),
        ("0:0", "nvmlDeviceGetUUID", "MIG-0"),
        ("0:0", "nvmlDeviceGetName", UNKNOWN),
    )
    assert GpuSource().read().dropped == ("GPU 0:0: cannot read Name: Unknown Error",)
