"""Tests of the GPU source: the values of each card, and hosts without driver or library."""

import pynvml
import pytest

from tests.agent.agent_client import raising
from tests.agent.sources.nvml import NOT_SUPPORTED, UNKNOWN
from zmon.agent.sources.gpu import ECC, FIELDS, NVLINK_ERRORS, REPAIRS, THROTTLES, GpuSource, sysfs_address
from zmon.agent.sources.nvml import ALL_LINKS
from zmon.errors import SourceUnavailable
from zmon.schema.host import GpuSample

NOT_THROTTLED = dict.fromkeys(THROTTLES, False)
CRC, DATA, REPLAY, RECOVERY = (f"field.{field}" for field in NVLINK_ERRORS)
MEMORY_TEMPERATURE = f"field.{pynvml.NVML_FI_DEV_MEMORY_TEMP}"
PCIE_SENT = f"field.{pynvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES}"
PCIE_RECEIVED = f"field.{pynvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES}"
TYPE_OF_PCIE_SENT = f"type.{pynvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES}"
LINK_SENT = f"field.{pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX}"  # KiB
LINK_RECEIVED = f"field.{pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX}"
NEWER_LINK_SENT = f"field.{pynvml.NVML_FI_DEV_NVLINK_COUNT_XMIT_BYTES}"
NEWER_LINK_RECEIVED = f"field.{pynvml.NVML_FI_DEV_NVLINK_COUNT_RCV_BYTES}"
REASONS = "nvmlDeviceGetCurrentClocksEventReasons"
RETIRED, REMAPPED = (f"field.{field}" for field in REPAIRS)  # pages and rows of memory that wait for a repair
SHOWN = {  # answers of the driver about a card → fields of its sample
    "identity": (
        {},
        {"gpu": "0", "uuid": "GPU-0", "name": "NVIDIA H200", "pci": "0000:3b:00.0", "lost": False, "mig": False,
         "nics": ("mlx5_0 of 0000:3b:00.0",)},
    ),
    "load in base units": (
        {MEMORY_TEMPERATURE: 85},
        {"memory_used_bytes": 600, "memory_total_bytes": 1000, "utilization_ratio": 0.5, "power_watts": 300.0,
         "power_limit_watts": 700.0, "temperature_celsius": 61, "memory_temperature_celsius": 85},
    ),
    "clocks in base units": (
        {},
        {"clocks_hertz": {"graphics": 1000e6, "sm": 1001e6, "memory": 1002e6, "video": 1003e6},
         "max_clocks_hertz": {"graphics": 2000e6, "sm": 2001e6, "memory": 2002e6, "video": 2003e6}},
    ),
    "each process once": ({"pids": "9,7,9"}, {"pids": (7, 9)}),
    "reasons of throttling": (
        {REASONS: pynvml.nvmlClocksEventReasonHwThermalSlowdown | pynvml.nvmlClocksEventReasonHwSlowdown},
        {"throttled": NOT_THROTTLED | {"hw_thermal": True, "hw_slowdown": True}},
    ),
    **{
        f"{clock}, no throttling": ({REASONS: reason}, {"throttled": NOT_THROTTLED})
        for clock, reason in (
            ("idle clock", pynvml.nvmlClocksEventReasonGpuIdle),
            ("clock set by a user", pynvml.nvmlClocksEventReasonUserDefinedClocks),
            ("clock set for the display", pynvml.nvmlClocksEventReasonDisplayClockSetting),
        )
    },
    "ECC errors by kind": (
        {f"field.{field}": n for n, field in enumerate(ECC.values())},
        {"ecc_errors": {kind: n for n, kind in enumerate(ECC)}},
    ),
    "no page waits for repair": ({RETIRED: 0}, {"repair_pending": False}),
    "row waits for repair": ({REMAPPED: 1}, {"repair_pending": True}),
    "row waits and no page": ({RETIRED: 0, REMAPPED: 1}, {"repair_pending": True}),
    "unknown whether anything waits": ({}, {"repair_pending": None}),
    "PCIe bytes": (
        {PCIE_SENT: 2**40, PCIE_RECEIVED: 3}, {"pcie_sent_bytes": 2**40, "pcie_received_bytes": 3}
    ),
    "PCIe counter with 32 bits is unknown": (
        {PCIE_SENT: 5, TYPE_OF_PCIE_SENT: pynvml.NVML_VALUE_TYPE_UNSIGNED_INT}, {"pcie_sent_bytes": None}
    ),
    "NVLink bytes, summed over links": (
        {f"{LINK_SENT}@{ALL_LINKS}": 3, f"{LINK_RECEIVED}@{ALL_LINKS}": 0, LINK_SENT: 1},
        {"nvlink_sent_bytes": 3072, "nvlink_received_bytes": 0},
    ),
    "NVLink bytes of newer cards": (
        {f"{NEWER_LINK_SENT}@{ALL_LINKS}": 5, f"{NEWER_LINK_RECEIVED}@{ALL_LINKS}": 6},
        {"nvlink_sent_bytes": 5, "nvlink_received_bytes": 6},
    ),
    "sum of the supported NVLink errors": ({CRC: 1, DATA: 2, REPLAY: 4}, {"nvlink_errors": 7}),
    "sum of all NVLink errors": ({CRC: 1, DATA: 2, REPLAY: 4, RECOVERY: 8}, {"nvlink_errors": 15}),
    "NVLink errors unknown if one kind is": ({CRC: 1, DATA: UNKNOWN}, {"nvlink_errors": None}),
    "zeros of an idle card, not unknown": (
        {f"nvmlDeviceGet{name}": 0 for name in ("MemoryInfo", "UtilizationRates", "PowerUsage")} | {PCIE_SENT: 0},
        {"memory_used_bytes": 0, "utilization_ratio": 0.0, "power_watts": 0.0, "pcie_sent_bytes": 0},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("answers", "fields"), SHOWN.values(), ids=SHOWN)
def test_sample_of_a_card_has_the_answers_of_the_driver(fake_nvml, answers, fields):
    fake_nvml.set_answers(*(("0", function, answer) for function, answer in answers.items()))
    reading = GpuSource().read()
    (card,) = reading.value
    assert {name: getattr(card, name) for name in fields} == fields
    assert fake_nvml.calls("0", "nvmlDeviceGetPcieThroughput") == 0  # the counters replace it


def test_value_unsupported_by_a_card_is_unknown_but_not_dropped(fake_nvml):
    unsupported = [
        "MemoryInfo", "UtilizationRates", "PowerUsage", "EnforcedPowerLimit", "TemperatureV", "Temperature.0",
        "MigMode", "Name", "CurrentClocksEventReasons", "CurrentClocksThrottleReasons", "PciInfo_v3",
        "ComputeRunningProcesses_v3", "MinorNumber",
        *(f"{clock}ClockInfo.{domain}" for clock in ("", "Max") for domain in range(4)),
    ]  # fmt: skip
    fake_nvml.set_answers(
        ("driver", "cards", 2), *(("0", f"nvmlDeviceGet{name}", NOT_SUPPORTED) for name in unsupported)
    )
    reading = GpuSource().read()
    assert reading.value[0] == GpuSample(gpu="0", uuid="GPU-0")
    assert reading.value[1].power_watts == 300.0
    assert reading.dropped == ()


def test_card_that_cannot_be_opened_is_reported_and_hides_no_other(fake_nvml):
    no_power = f"!{pynvml.NVML_ERROR_INSUFFICIENT_POWER}"
    fake_nvml.set_answers(("driver", "cards", 2), ("0", "nvmlDeviceGetHandleByIndex_v2", no_power))
    reading = GpuSource().read()
    assert [card.gpu for card in reading.value] == ["1"]
    assert reading.dropped == ("GPU 0: cannot be opened: Insufficient External Power",)


def test_constant_values_are_read_only_once(fake_nvml, monkeypatch, tmp_path):
    searches = []
    monkeypatch.setattr("zmon.agent.sources.pci.nearest_nics", lambda sys, pci: searches.append((sys, pci)) or ())
    source = GpuSource(tmp_path)
    for _ in range(3):
        source.read()
    once = ("HandleByIndex_v2", "UUID", "Name", "PciInfo_v3", "MaxClockInfo.0")
    assert [fake_nvml.calls("0", f"nvmlDeviceGet{name}") for name in once] == [1] * len(once)
    assert searches == [(tmp_path, "0000:3b:00.0")]


def test_all_field_values_are_read_with_a_single_call(fake_nvml):
    fake_nvml.set_answers(*(("0", f"field.{field}", 0) for field in FIELDS if isinstance(field, int)))
    GpuSource().read()
    assert fake_nvml.calls("0", "nvmlDeviceGetFieldValues") == 1


def test_older_library_provides_the_values_that_exist(old_nvml):
    power_cap = ("0", "nvmlDeviceGetCurrentClocksThrottleReasons", pynvml.nvmlClocksEventReasonSwPowerCap)
    old_nvml.set_answers(power_cap, ("driver", "xids", "0:79"))
    reading = GpuSource().read()
    (card,) = reading.value
    assert (card.temperature_celsius, card.throttled["sw_power_cap"], card.power_watts) == (61, True, 300.0)
    assert (card.mig, card.pids, card.ecc_errors, card.xid_errors) == (None, (), {}, {})
    assert reading.dropped == ()


def test_address_in_a_domain_of_five_digits_has_the_format_of_sysfs():
    assert sysfs_address("00010000:AF:00.1") == "10000:af:00.1"


@pytest.mark.parametrize(("missing", "hint"), [("driver", "install the NVIDIA driver"), ("library", "Not Found")])
def test_host_without_driver_or_library_reports_the_source_as_absent(fake_nvml, monkeypatch, missing, hint):
    fake_nvml.set_answers(("driver", "error", pynvml.NVML_ERROR_DRIVER_NOT_LOADED))
    if missing == "library":
        monkeypatch.setattr(pynvml, "CDLL", raising(OSError("cannot open shared object file")))
    with pytest.raises(SourceUnavailable, match=hint):
        GpuSource().read()


def test_driver_and_library_of_different_versions_are_a_failure(fake_nvml):
    fake_nvml.set_answers(("driver", "nvmlInitWithFlags", f"!{pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH}"))
    with pytest.raises(pynvml.NVMLError, match="mismatch"):
        GpuSource().read()
