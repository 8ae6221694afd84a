"""Tests of the GPU source: the values of each card, and hosts without driver or library."""

import subprocess
import sys

import pynvml
import pytest

from tests.agent.sources.nvml import NOT_SUPPORTED, UNKNOWN, Stub
from zmon.agent.sources.gpu import ECC, FIELDS, NVLINK_ERRORS, GpuSource, sysfs_address
from zmon.errors import SourceUnavailable
from zmon.schema.host import GpuSample

ALL_LINKS = 4294967295


@pytest.fixture
def fake_nvml(tmp_path, monkeypatch):
    monkeypatch.setattr("zmon.agent.sources.pci.nearest_nics", lambda sys, pci: (f"mlx5_0 of {pci}",))
    return Stub(tmp_path, monkeypatch)


def read_cards():
    return GpuSource().read().value


def test_card_shows_its_identity(fake_nvml):
    (card,) = read_cards()
    assert (card.gpu, card.uuid, card.name) == ("0", "GPU-0", "NVIDIA H200")
    assert (card.pci, card.nics, card.lost) == ("0000:3b:00.0", ("mlx5_0 of 0000:3b:00.0",), False)


def test_card_shows_its_load_in_base_units(fake_nvml):
    fake_nvml.set_answers(("0", "field.82", 85), ("0", "pids", "9,7,9"))
    (card,) = read_cards()
    assert (card.memory_used_bytes, card.memory_total_bytes, card.utilization_ratio) == (600, 1000, 0.5)
    assert (card.power_watts, card.power_limit_watts) == (300.0, 700.0)
    assert (card.temperature_celsius, card.memory_temperature_celsius) == (61, 85)
    assert card.clocks_hertz == {"graphics": 1000e6, "sm": 1001e6, "memory": 1002e6, "video": 1003e6}
    assert card.max_clocks_hertz == {"graphics": 2000e6, "sm": 2001e6, "memory": 2002e6, "video": 2003e6}
    assert (card.pids, card.mig) == ((7, 9), False)


def test_throttled_card_shows_the_reasons(fake_nvml):
    fake_nvml.set_answers(("0", "nvmlDeviceGetCurrentClocksEventReasons", 0x40 | 0x8))
    throttled = read_cards()[0].throttled
    assert {reason for reason, on in throttled.items() if on} == {"hw_thermal", "hw_slowdown"}
    assert throttled["sw_power_cap"] is False


@pytest.mark.parametrize("reason", [0x1, 0x2, 0x100])
def test_idle_or_user_set_clock_is_not_throttling(fake_nvml, reason):
    fake_nvml.set_answers(("0", "nvmlDeviceGetCurrentClocksEventReasons", reason))
    throttled = read_cards()[0].throttled
    assert throttled
    assert not any(throttled.values())


def test_ecc_errors_are_counted_by_kind(fake_nvml):
    fake_nvml.set_answers(*(("0", f"field.{field}", n) for n, field in enumerate(ECC.values())))
    assert read_cards()[0].ecc_errors == {kind: n for n, kind in enumerate(ECC)}


@pytest.mark.parametrize(
    ("retired", "remapped", "pending"), [(0, None, False), (None, 1, True), (0, 1, True), (None, None, None)]
)
def test_repair_is_pending_if_pages_or_rows_wait(fake_nvml, retired, remapped, pending):
    fields = ((pynvml.NVML_FI_DEV_RETIRED_PENDING, retired), (pynvml.NVML_FI_DEV_REMAPPED_PENDING, remapped))
    fake_nvml.set_answers(*(("0", f"field.{field}", value) for field, value in fields if value is not None))
    assert read_cards()[0].repair_pending is pending


def test_pcie_bytes_are_counters(fake_nvml):
    fake_nvml.set_answers(("0", "field.197", 2**40), ("0", "field.198", 3))
    assert (read_cards()[0].pcie_sent_bytes, read_cards()[0].pcie_received_bytes) == (2**40, 3)
    assert fake_nvml.calls("0", "nvmlDeviceGetPcieThroughput") == 0


def test_pcie_counter_with_32_bits_is_unknown(fake_nvml):
    fake_nvml.set_answers(("0", "field.197", 5), ("0", "type.197", pynvml.NVML_VALUE_TYPE_UNSIGNED_INT))
    assert read_cards()[0].pcie_sent_bytes is None


def test_nvlink_bytes_are_summed_over_links_and_converted_to_bytes(fake_nvml):
    fake_nvml.set_answers(("0", f"field.138@{ALL_LINKS}", 3), ("0", f"field.139@{ALL_LINKS}", 0), ("0", "field.138", 1))
    (card,) = read_cards()
    assert (card.nvlink_sent_bytes, card.nvlink_received_bytes) == (3072, 0)


def test_nvlink_bytes_of_newer_cards_come_from_their_own_counters(fake_nvml):
    fake_nvml.set_answers(("0", f"field.202@{ALL_LINKS}", 5), ("0", f"field.204@{ALL_LINKS}", 6))
    (card,) = read_cards()
    assert (card.nvlink_sent_bytes, card.nvlink_received_bytes) == (5, 6)


def test_nvlink_errors_are_the_sum_of_the_supported_kinds(fake_nvml):
    crc, data, replay, recovery = NVLINK_ERRORS
    fake_nvml.set_answers(("0", f"field.{crc}", 1), ("0", f"field.{data}", 2), ("0", f"field.{replay}", 4))
    assert read_cards()[0].nvlink_errors == 7
    fake_nvml.set_answers(("0", f"field.{recovery}", 8))
    assert read_cards()[0].nvlink_errors == 15


def test_nvlink_errors_are_unknown_if_any_kind_cannot_be_read(fake_nvml):
    fake_nvml.set_answers(("0", f"field.{NVLINK_ERRORS[0]}", 1), ("0", f"field.{NVLINK_ERRORS[1]}", UNKNOWN))
    assert read_cards()[0].nvlink_errors is None


def test_value_unsupported_by_a_card_is_unknown_but_not_dropped(fake_nvml):
    silent = ["MemoryInfo", "UtilizationRates", "PowerUsage", "EnforcedPowerLimit", "TemperatureV", "Temperature.0"]
    silent += [
        "MigMode",
        "Name",
        "CurrentClocksEventReasons",
        "CurrentClocksThrottleReasons",
        "ComputeRunningProcesses_v3",
        "PciInfo_v3",
    ]
    silent += [f"{clock}ClockInfo.{domain}" for clock in ("", "Max") for domain in range(4)]
    fake_nvml.set_answers(("driver", "cards", 2), *(("0", f"nvmlDeviceGet{what}", NOT_SUPPORTED) for what in silent))
    reading = GpuSource().read()
    assert reading.value[0] == GpuSample(gpu="0", uuid="GPU-0")
    assert reading.value[1].power_watts == 300.0
    assert reading.dropped == ()


def test_values_of_an_idle_card_are_zero_and_not_unknown(fake_nvml):
    idle = ("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetUtilizationRates", "nvmlDeviceGetPowerUsage", "field.197")
    fake_nvml.set_answers(*(("0", what, 0) for what in idle))
    (card,) = read_cards()
    assert (card.memory_used_bytes, card.utilization_ratio, card.power_watts, card.pcie_sent_bytes) == (0, 0.0, 0.0, 0)


def test_unexpected_error_loses_its_value_and_adds_a_line_per_card(fake_nvml):
    fake_nvml.set_answers(
        ("driver", "cards", 2),
        *(("0", f"nvmlDeviceGet{what}", UNKNOWN) for what in ("PowerUsage", "MemoryInfo")),
        ("0", "field.82", UNKNOWN),
    )
    reading = GpuSource().read()
    assert [card.power_watts for card in reading.value] == [None, 300.0]
    assert reading.value[0].utilization_ratio == 0.5
    assert reading.dropped == ("GPU 0: cannot read MemoryInfo, PowerUsage, field 82: Unknown Error",)


def test_card_that_cannot_be_opened_is_reported_and_hides_no_other(fake_nvml):
    fake_nvml.set_answers(("driver", "cards", 2), ("0", "nvmlDeviceGetHandleByIndex_v2", "!8"))
    reading = GpuSource().read()
    assert [card.gpu for card in reading.value] == ["1"]
    assert reading.dropped == ("GPU 0: cannot be opened: Insufficient External Power",)


def test_constant_values_are_read_only_once(fake_nvml, monkeypatch, tmp_path):
    calls = []
    monkeypatch.setattr("zmon.agent.sources.pci.nearest_nics", lambda sys, pci: calls.append((sys, pci)) or ())
    source = GpuSource(tmp_path)
    for _ in range(3):
        source.read()
    once = ("HandleByIndex_v2", "UUID", "Name", "PciInfo_v3", "MaxClockInfo.0")
    assert [fake_nvml.calls("0", f"nvmlDeviceGet{what}") for what in once] == [1] * len(once)
    assert calls == [(tmp_path, "0000:3b:00.0")]


def test_all_field_values_are_read_with_a_single_call(fake_nvml):
    fake_nvml.set_answers(*(("0", f"field.{field}", 0) for field in FIELDS if isinstance(field, int)))
    GpuSource().read()
    assert fake_nvml.calls("0", "nvmlDeviceGetFieldValues") == 1


def test_older_library_provides_the_values_that_exist(tmp_path, monkeypatch):
    monkeypatch.setattr("zmon.agent.sources.pci.nearest_nics", lambda sys, pci: ())
    fake_nvml = Stub(tmp_path, monkeypatch, "-DOLD")
    fake_nvml.set_answers(("0", "nvmlDeviceGetCurrentClocksThrottleReasons", 0x4), ("driver", "xids", "0:79"))
    reading = GpuSource().read()
    (card,) = reading.value
    assert (card.temperature_celsius, card.throttled["sw_power_cap"], card.power_watts) == (61, True, 300.0)
    assert (card.mig, card.pids, card.ecc_errors, card.xid_errors) == (None, (), {}, {})
    assert reading.dropped == ()


@pytest.mark.parametrize(
    ("bus_id", "address"), [("00000000:3B:00.0", "0000:3b:00.0"), ("00010000:AF:00.1", "10000:af:00.1")]
)
def test_address_has_the_format_of_sysfs(bus_id, address):
    assert sysfs_address(bus_id) == address


def test_host_whose_driver_is_not_loaded_reports_the_source_as_absent(fake_nvml):
    fake_nvml.set_answers(("driver", "error", pynvml.NVML_ERROR_DRIVER_NOT_LOADED))
    with pytest.raises(SourceUnavailable, match="install the NVIDIA driver"):
        GpuSource().read()


def test_host_without_the_library_reports_the_source_as_absent(fake_nvml, monkeypatch):
    def raise_library_not_found(name):
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(pynvml, "CDLL", raise_library_not_found)
    with pytest.raises(SourceUnavailable, match="Not Found"):
        GpuSource().read()


def test_driver_and_library_of_different_versions_are_a_failure(fake_nvml):
    fake_nvml.set_answers(("driver", "nvmlInitWithFlags", f"!{pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH}"))
    with pytest.raises(pynvml.NVMLError, match="mismatch"):
        GpuSource().read()


def test_gpus_of_this_machine_are_read_or_absent():
    """The read runs in a separate process, without the stub library."""
    code = "import zmon.agent.sources.gpu as g; print([c.uuid for c in g.GpuSource().read().value])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.stdout.startswith("['GPU-") or "SourceUnavailable: cannot read GPUs" in run.stderr
