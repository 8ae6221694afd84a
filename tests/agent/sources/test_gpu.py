"""Tests of the GPU source. It is absent, not down, on a host without the driver."""

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
def nvml(tmp_path, monkeypatch):
    monkeypatch.setattr("zmon.agent.sources.pci.nearest_nics", lambda sys, pci: (f"mlx5_0 of {pci}",))
    return Stub(tmp_path, monkeypatch)


def cards():
    return GpuSource().read().value


def test_card_shows_its_identity(nvml):
    (card,) = cards()
    assert (card.gpu, card.uuid, card.name) == ("0", "GPU-0", "NVIDIA H200")
    assert (card.pci, card.nics, card.lost) == ("0000:3b:00.0", ("mlx5_0 of 0000:3b:00.0",), False)


def test_card_shows_its_load_in_base_units(nvml):
    nvml.set_answers(("0", "field.82", 85), ("0", "pids", "9,7,9"))
    (card,) = cards()
    assert (card.memory_used_bytes, card.memory_total_bytes, card.utilization_ratio) == (600, 1000, 0.5)
    assert (card.power_watts, card.power_limit_watts) == (300.0, 700.0)
    assert (card.temperature_celsius, card.memory_temperature_celsius) == (61, 85)
    assert card.clocks_hertz == {"graphics": 1000e6, "sm": 1001e6, "memory": 1002e6, "video": 1003e6}
    assert card.max_clocks_hertz == {"graphics": 2000e6, "sm": 2001e6, "memory": 2002e6, "video": 2003e6}
    assert (card.pids, card.mig) == ((7, 9), False)


def test_throttled_card_shows_the_reasons(nvml):
    nvml.set_answers(("0", "nvmlDeviceGetCurrentClocksEventReasons", 0x40 | 0x8))
    throttled = cards()[0].throttled
    assert {reason for reason, on in throttled.items() if on} == {"hw_thermal", "hw_slowdown"}
    assert throttled["sw_power_cap"] is False


@pytest.mark.parametrize("reason", [0x1, 0x2, 0x100])
def test_idle_clock_or_one_set_by_a_person_is_no_throttling(nvml, reason):
    nvml.set_answers(("0", "nvmlDeviceGetCurrentClocksEventReasons", reason))
    throttled = cards()[0].throttled
    assert throttled
    assert not any(throttled.values())


def test_ecc_errors_are_counted_by_kind(nvml):
    nvml.set_answers(*(("0", f"field.{field}", n) for n, field in enumerate(ECC.values())))
    assert cards()[0].ecc_errors == {kind: n for n, kind in enumerate(ECC)}


@pytest.mark.parametrize(
    ("retired", "remapped", "pending"), [(0, None, False), (None, 1, True), (0, 1, True), (None, None, None)]
)
def test_repair_is_pending_if_pages_or_rows_wait(nvml, retired, remapped, pending):
    fields = ((pynvml.NVML_FI_DEV_RETIRED_PENDING, retired), (pynvml.NVML_FI_DEV_REMAPPED_PENDING, remapped))
    nvml.set_answers(*(("0", f"field.{field}", value) for field, value in fields if value is not None))
    assert cards()[0].repair_pending is pending


def test_pcie_bytes_are_counters(nvml):
    nvml.set_answers(("0", "field.197", 2**40), ("0", "field.198", 3))
    assert (cards()[0].pcie_sent_bytes, cards()[0].pcie_received_bytes) == (2**40, 3)
    assert nvml.calls("0", "nvmlDeviceGetPcieThroughput") == 0


def test_pcie_counter_of_32_bits_is_unknown(nvml):
    nvml.set_answers(("0", "field.197", 5), ("0", "type.197", pynvml.NVML_VALUE_TYPE_UNSIGNED_INT))
    assert cards()[0].pcie_sent_bytes is None


def test_nvlink_bytes_are_of_all_links_and_no_kibibytes(nvml):
    nvml.set_answers(("0", f"field.138@{ALL_LINKS}", 3), ("0", f"field.139@{ALL_LINKS}", 0), ("0", "field.138", 1))
    (card,) = cards()
    assert (card.nvlink_sent_bytes, card.nvlink_received_bytes) == (3072, 0)


def test_nvlink_bytes_of_newer_cards_come_from_their_own_counters(nvml):
    nvml.set_answers(("0", f"field.202@{ALL_LINKS}", 5), ("0", f"field.204@{ALL_LINKS}", 6))
    (card,) = cards()
    assert (card.nvlink_sent_bytes, card.nvlink_received_bytes) == (5, 6)


def test_nvlink_errors_are_the_sum_of_the_kinds_it_counts(nvml):
    crc, data, replay, recovery = NVLINK_ERRORS
    nvml.set_answers(("0", f"field.{crc}", 1), ("0", f"field.{data}", 2), ("0", f"field.{replay}", 4))
    assert cards()[0].nvlink_errors == 7
    nvml.set_answers(("0", f"field.{recovery}", 8))
    assert cards()[0].nvlink_errors == 15


def test_nvlink_errors_are_unknown_when_one_kind_cannot_be_read(nvml):
    nvml.set_answers(("0", f"field.{NVLINK_ERRORS[0]}", 1), ("0", f"field.{NVLINK_ERRORS[1]}", UNKNOWN))
    assert cards()[0].nvlink_errors is None


def test_value_that_a_card_does_not_offer_is_unknown_but_not_dropped(nvml):
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
    nvml.set_answers(("driver", "cards", 2), *(("0", f"nvmlDeviceGet{what}", NOT_SUPPORTED) for what in silent))
    reading = GpuSource().read()
    assert reading.value[0] == GpuSample(gpu="0", uuid="GPU-0")
    assert reading.value[1].power_watts == 300.0
    assert reading.dropped == ()


def test_idle_card_is_zero_and_not_unknown(nvml):
    idle = ("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetUtilizationRates", "nvmlDeviceGetPowerUsage", "field.197")
    nvml.set_answers(*(("0", what, 0) for what in idle))
    (card,) = cards()
    assert (card.memory_used_bytes, card.utilization_ratio, card.power_watts, card.pcie_sent_bytes) == (0, 0.0, 0.0, 0)


def test_odd_error_loses_that_value_and_adds_one_line_per_card(nvml):
    nvml.set_answers(
        ("driver", "cards", 2),
        *(("0", f"nvmlDeviceGet{what}", UNKNOWN) for what in ("PowerUsage", "MemoryInfo")),
        ("0", "field.82", UNKNOWN),
    )
    reading = GpuSource().read()
    assert [card.power_watts for card in reading.value] == [None, 300.0]
    assert reading.value[0].utilization_ratio == 0.5
    assert reading.dropped == ("GPU 0: cannot read MemoryInfo, PowerUsage, field 82: Unknown Error",)


def test_card_that_cannot_be_opened_is_reported_and_does_not_hide_others(nvml):
    nvml.set_answers(("driver", "cards", 2), ("0", "nvmlDeviceGetHandleByIndex_v2", "!8"))
    reading = GpuSource().read()
    assert [card.gpu for card in reading.value] == ["1"]
    assert reading.dropped == ("GPU 0: cannot be opened: Insufficient External Power",)


def test_values_that_do_not_change_are_read_once(nvml, monkeypatch, tmp_path):
    calls = []
    monkeypatch.setattr("zmon.agent.sources.pci.nearest_nics", lambda sys, pci: calls.append((sys, pci)) or ())
    source = GpuSource(tmp_path)
    for _ in range(3):
        source.read()
    once = ("HandleByIndex_v2", "UUID", "Name", "PciInfo_v3", "MaxClockInfo.0")
    assert [nvml.calls("0", f"nvmlDeviceGet{what}") for what in once] == [1] * len(once)
    assert calls == [(tmp_path, "0000:3b:00.0")]


def test_all_field_values_are_one_call(nvml):
    nvml.set_answers(*(("0", f"field.{field}", 0) for field in FIELDS if isinstance(field, int)))
    GpuSource().read()
    assert nvml.calls("0", "nvmlDeviceGetFieldValues") == 1


def test_older_library_shows_what_it_has(tmp_path, monkeypatch):
    monkeypatch.setattr("zmon.agent.sources.pci.nearest_nics", lambda sys, pci: ())
    nvml = Stub(tmp_path, monkeypatch, "-DOLD")
    nvml.set_answers(("0", "nvmlDeviceGetCurrentClocksThrottleReasons", 0x4), ("driver", "xids", "0:79"))
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


def test_host_whose_driver_is_not_loaded_reports_the_source_as_absent(nvml):
    nvml.set_answers(("driver", "error", pynvml.NVML_ERROR_DRIVER_NOT_LOADED))
    with pytest.raises(SourceUnavailable, match="install the NVIDIA driver"):
        GpuSource().read()


def test_host_without_the_library_reports_the_source_as_absent(nvml, monkeypatch):
    def fail(name):
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(pynvml, "CDLL", fail)
    with pytest.raises(SourceUnavailable, match="Not Found"):
        GpuSource().read()


def test_driver_and_library_of_different_versions_are_a_failure(nvml):
    nvml.set_answers(("driver", "nvmlInitWithFlags", f"!{pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH}"))
    with pytest.raises(pynvml.NVMLError, match="mismatch"):
        GpuSource().read()


def test_gpus_of_this_machine_are_read_or_absent():
    """It runs in a process of its own, without any stub."""
    code = "import zmon.agent.sources.gpu as g; print([c.uuid for c in g.GpuSource().read().value])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.stdout.startswith("['GPU-") or "SourceUnavailable: cannot read GPUs" in run.stderr
