"""Tests of the comparison of NVML with nvidia-smi: a stub of the driver, and a program that answers like nvidia-smi."""

from dataclasses import fields

import pynvml
import pytest

from bench.gpu_check.checks import nvml
from bench.gpu_check.checks.nvml_fields import COMPARED_WITH_LOAD, NOT_COMPARED, PAIRS, PROPERTIES, Round, compare
from bench.gpu_check.records import LoadTotals
from bench.gpu_check.result import FAILED, NOT_CHECKED, PASSED
from tests.agent.sources.nvml import Stub
from tests.bench.gpu_check.fake_smi import FakeSmi
from zmon.agent.sources.gpu import ECC, THROTTLES, GpuSource
from zmon.scaling.peaks import peaks_of
from zmon.schema.host import GpuSample

PID = 4242
# What nvidia-smi would show of the stub's GPU, in its own form.
UNKNOWN = dict.fromkeys(PROPERTIES, "[N/A]")
SMI = UNKNOWN | {
    "index": "0", "uuid": "GPU-0", "name": "NVIDIA H200", "pci.bus_id": "00000000:3B:00.0",
    "memory.used": "0", "memory.reserved": "0", "memory.total": "0", "utilization.gpu": "47",
    "power.draw": "302.10", "enforced.power.limit": "700.00", "temperature.gpu": "60", "temperature.memory": "85",
    "clocks.current.graphics": "1000", "clocks.current.sm": "1001", "clocks.current.memory": "1002",
    "clocks.current.video": "1003", "clocks.max.graphics": "2000", "clocks.max.sm": "2001", "clocks.max.memory": "2002",
    "mig.mode.current": "Disabled",
    "clocks_event_reasons.sw_power_cap": "Not Active", "clocks_event_reasons.hw_slowdown": "Not Active",
    "clocks_event_reasons.sync_boost": "Not Active", "clocks_event_reasons.sw_thermal_slowdown": "Not Active",
    "clocks_event_reasons.hw_thermal_slowdown": "Not Active",
    "clocks_event_reasons.hw_power_brake_slowdown": "Not Active",
    "ecc.errors.corrected.volatile.total": "3",
}  # fmt: skip
REMAPPED = {"remapped_rows.correctable": "1", "remapped_rows.uncorrectable": "0", "remapped_rows.pending": "No"}
APPS = [{"pid": str(PID)}]
STUB = {
    "pids": PID, "field.82": 85, f"field.{ECC['volatile_corrected']}": 3, f"field.{ECC['remapped_correctable']}": 1,
    f"field.{ECC['remapped_uncorrectable']}": 0, f"field.{pynvml.NVML_FI_DEV_REMAPPED_PENDING}": 0,
}  # fmt: skip


@pytest.fixture
def driver(tmp_path, monkeypatch):
    """The stub of the driver with a GPU whose values are those in `SMI`; nothing waits for copies."""
    monkeypatch.setattr("zmon.agent.sources.pci.nearest_nics", lambda sys, pci: ())
    monkeypatch.setattr(nvml, "_COPY_SECONDS", 0.0)
    monkeypatch.setattr(nvml, "ROUNDS", 1)
    stub = Stub(tmp_path, monkeypatch)
    stub.set_answers(*(("0", question, answer) for question, answer in STUB.items()))
    return stub


def load_totals(received_bytes=0, sent_bytes=0):
    return LoadTotals(received_bytes, sent_bytes, operations=0.0, dtype="bfloat16")


def results_by_name(tmp_path, smi=SMI, apps=APPS, load=load_totals):
    """Return the results by name; `load` returns the work that was done on the GPU so far."""
    program = FakeSmi(tmp_path, gpu=[smi], remapped_rows=[REMAPPED], compute_apps=apps)
    return {result.what: result for result in nvml.compare_values(GpuSource(), program.command, PID, load)}


def names(results, outcome):
    return {name for name, result in results.items() if result.outcome == outcome}


def test_every_field_of_a_sample_is_compared_or_has_a_reason():
    listed = {pair.field for pair in PAIRS} | set(NOT_COMPARED) | set(COMPARED_WITH_LOAD)
    assert listed == {field.name for field in fields(GpuSample)}
    keys = {pair.field: {p.key for p in PAIRS if p.field == pair.field} for pair in PAIRS if pair.key}
    assert (keys["throttled"], keys["ecc_errors"]) == (set(THROTTLES), set(ECC))


def test_equal_values_pass(tmp_path, driver):
    results = results_by_name(tmp_path)
    assert names(results, FAILED) == set()
    passed = names(results, PASSED)
    assert {"gpu", "uuid", "name", "pci", "power_watts", "temperature_celsius", "mig", "pids"} <= passed
    assert {"throttled[hw_thermal]", "ecc_errors[volatile_corrected]", "clocks_hertz[sm]", "repair_pending"} <= passed


@pytest.mark.parametrize(
    ("name", "note"),
    [
        ("ecc_errors[volatile_uncorrected]", "this GPU does not offer it"),
        ("max_clocks_hertz[video]", "nvidia-smi does not show it"),
        ("xid_errors", "an XID error is not provoked for a check"),
        ("tensor_active_ratio", "this GPU does not measure it"),
    ],
)
def test_value_without_a_counterpart_is_not_checked(tmp_path, driver, name, note):
    result = results_by_name(tmp_path)[name]
    assert (result.outcome, result.note) == (NOT_CHECKED, note)


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        ({"power.draw": "302100"}, "power_watts"),  # milliwatts
        ({"uuid": "GPU-1"}, "uuid"),
        ({"pci.bus_id": "00000000:3C:00.0"}, "pci"),
        ({"clocks.current.sm": "1980"}, "clocks_hertz[sm]"),
        ({"clocks_event_reasons.sync_boost": "Active"}, "throttled[sync_boost]"),
        ({"ecc.errors.corrected.volatile.total": "4"}, "ecc_errors[volatile_corrected]"),
        ({"mig.mode.current": "Enabled"}, "mig"),
        ({"utilization.gpu": "80"}, "utilization_ratio"),
        ({"temperature.memory": "40"}, "memory_temperature_celsius"),
    ],
)
def test_value_that_differs_fails_and_no_other(tmp_path, driver, changed, name):
    results = results_by_name(tmp_path, SMI | changed)
    assert names(results, FAILED) == {name}


def test_value_that_only_nvidia_smi_has_fails(tmp_path, driver):
    driver.set_answers(("0", "nvmlDeviceGetPowerUsage", "!3"))
    results = results_by_name(tmp_path)
    assert names(results, FAILED) == {"power_watts"}
    assert results["power_watts"].figure == "unknown"


def test_processes_that_only_one_side_has_fail(tmp_path, driver):
    assert names(results_by_name(tmp_path, apps=[*APPS, {"pid": "7"}]), FAILED) == {"pids"}
    driver.reset_answers(("0", "pids"))
    result = results_by_name(tmp_path, apps=[])["pids"]
    assert (result.outcome, result.note) == (NOT_CHECKED, "the driver shows no process (PID namespace?)")


@pytest.mark.parametrize(
    ("counted", "outcome"), [((1000, 500), PASSED), ((500, 1000), FAILED), ((1100, 550), PASSED), ((0, 0), FAILED)]
)
def test_bytes_on_the_bus_are_those_copied(tmp_path, driver, counted, outcome):
    received, sent = "field.198", "field.197"
    driver.set_answers(("0", received, 10), ("0", sent, 20))
    totals = iter((load_totals(64, 32), load_totals(1064, 532)))

    def load():
        driver.set_answers(("0", received, 10 + counted[0]), ("0", sent, 20 + counted[1]))  # read after the first call
        return next(totals)

    results = results_by_name(tmp_path, load=load)
    assert {results[f"pcie_{way}_bytes"].outcome for way in ("received", "sent")} == {outcome}


@pytest.mark.parametrize(
    ("peak_ratio", "outcome"), [(0.0, FAILED), (0.38, FAILED), (0.40, PASSED), (0.485, PASSED), (0.50, FAILED)]
)
def test_tensor_cores_are_as_busy_as_the_products_of_the_load(driver, peak_ratio, outcome):
    driver.set_answers(("0", "gpm.5", 44.4))
    source = GpuSource()
    source.read()
    operations_per_second = peak_ratio * peaks_of("NVIDIA H200", {}).flops["bfloat16"]
    result = nvml._compare_tensor(source.read().value[0], operations_per_second, "bfloat16")
    assert (result.outcome, result.note) == (outcome, "SM clock 1,001 MHz: the peak is that of the datasheet's clock")


def test_missing_driver_is_a_failure_because_torch_sees_a_gpu(tmp_path, driver):
    driver.set_answers(("driver", "error", 9))
    results = results_by_name(tmp_path)
    assert names(results, FAILED) == {"NVML source"}


def test_value_may_lie_between_two_readings_in_any_round():
    def reading(watts):
        return UNKNOWN | {"power.draw": str(watts)}

    sample = GpuSample("0", "GPU-0", power_watts=300.0)
    rising = Round(reading(100), sample, reading(500))
    jumping = Round(reading(100), sample, reading(100))
    for rounds, outcome in (((rising,), PASSED), ((jumping, rising), PASSED), ((jumping,), FAILED)):
        (result,) = (result for result in compare(rounds) if result.what == "power_watts")
        assert result.outcome == outcome
    assert result.compared_with == "nvidia-smi: 100 ± 15"


def test_used_memory_is_compared_with_what_is_allocated_and_reserved():
    row = UNKNOWN | {"memory.used": "1000", "memory.reserved": "561"}  # MiB
    for used, outcome in ((1561, PASSED), (1000, FAILED)):
        round_ = Round(row, GpuSample("0", "GPU-0", memory_used_bytes=used << 20), row)
        (result,) = (result for result in compare((round_,)) if result.what == "memory_used_bytes")
        assert result.outcome == outcome
