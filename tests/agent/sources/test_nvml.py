"""Tests of NVML queries. An unsupported value is queried only once, and a failure is reported once per read."""

import pynvml
import pytest

from tests.agent.sources.nvml import DRIVER_NOT_LOADED, NOT_SUPPORTED, UNKNOWN
from zmon.agent.sources import nvml
from zmon.agent.sources.nvml import Device

NUM_READS = 3
TEMPERATURE, ECC_ERRORS = pynvml.NVML_FI_DEV_MEMORY_TEMP, pynvml.NVML_FI_DEV_ECC_SBE_VOL_TOTAL  # two fields


@pytest.fixture
def card(fake_nvml):
    """Return card 0 of the fake driver."""
    nvml.load()
    return Device(pynvml.nvmlDeviceGetHandleByIndex(0))


@pytest.mark.parametrize("answer", [NOT_SUPPORTED, f"!{pynvml.NVML_ERROR_DEPRECATED}"])
def test_unsupported_call_is_not_repeated(fake_nvml, card, answer):
    fake_nvml.set_answers(("0", "nvmlDeviceGetPowerUsage", answer))
    assert [card.ask(pynvml.nvmlDeviceGetPowerUsage) for _ in range(NUM_READS)] == [None] * NUM_READS
    assert fake_nvml.calls("0", "nvmlDeviceGetPowerUsage") == 1
    assert list(card.complaints()) == []


def test_call_unsupported_by_a_card_or_with_an_argument_is_still_made_for_others(fake_nvml, card):
    fake_nvml.set_answers(
        ("0", "nvmlDeviceGetPowerUsage", NOT_SUPPORTED), ("0", "nvmlDeviceGetClockInfo.3", NOT_SUPPORTED)
    )
    other = Device(pynvml.nvmlDeviceGetHandleByIndex(1))
    assert (card.ask(pynvml.nvmlDeviceGetPowerUsage), other.ask(pynvml.nvmlDeviceGetPowerUsage)) == (None, 300000)
    clocks = [card.ask(pynvml.nvmlDeviceGetClockInfo, domain) for domain in (3, 3, 1)]
    assert clocks == [None, None, 1001]
    assert fake_nvml.calls("0", "nvmlDeviceGetClockInfo.3") == 1


@pytest.mark.parametrize(
    "code",
    [pynvml.NVML_ERROR_INVALID_ARGUMENT, pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_DEPRECATED],
    ids=["invalid argument", "not supported", "deprecated"],
)
def test_unsupported_field_is_not_read_again(fake_nvml, card, code):
    fake_nvml.set_answers(("0", f"field.{TEMPERATURE}", f"!{code}"), ("0", f"field.{ECC_ERRORS}", 0))
    assert [card.fields((TEMPERATURE, ECC_ERRORS)) for _ in range(NUM_READS)] == [{ECC_ERRORS: 0}] * NUM_READS
    calls = [fake_nvml.calls("0", f"field.{field}") for field in (TEMPERATURE, ECC_ERRORS)]
    assert calls == [1, NUM_READS]


def test_field_that_failed_is_unknown_and_read_again(fake_nvml, card):
    fake_nvml.set_answers(("0", f"field.{TEMPERATURE}", UNKNOWN))
    assert card.fields((TEMPERATURE,)) == {TEMPERATURE: None}
    assert list(card.complaints()) == [f"cannot read field {TEMPERATURE}: Unknown Error"]
    fake_nvml.set_answers(("0", f"field.{TEMPERATURE}", 70))
    assert card.fields((TEMPERATURE,)) == {TEMPERATURE: 70}


def test_fields_of_a_card_without_fields_are_not_read_again(fake_nvml, card):
    fake_nvml.set_answers(("0", "nvmlDeviceGetFieldValues", NOT_SUPPORTED))
    assert [card.fields((TEMPERATURE, ECC_ERRORS)) for _ in range(NUM_READS)] == [{}] * NUM_READS
    assert fake_nvml.calls("0", "nvmlDeviceGetFieldValues") == 1


@pytest.mark.parametrize(
    ("kind", "raw", "values"),
    [
        pytest.param(pynvml.NVML_VALUE_TYPE_UNSIGNED_INT, 2**32 + 5, {TEMPERATURE: 5}, id="32 bits"),
        pytest.param(pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, 2**40, {TEMPERATURE: 2**40}, id="64 bits"),
        pytest.param(pynvml.NVML_VALUE_TYPE_SIGNED_INT, -3, {TEMPERATURE: -3}, id="signed"),
        pytest.param(pynvml.NVML_VALUE_TYPE_UNSIGNED_SHORT, 70, {TEMPERATURE: 70}, id="16 bits"),
        pytest.param(99, 5, {}, id="a type that pynvml does not know"),
    ],
)
def test_field_is_read_by_its_type_and_unknown_if_that_is(fake_nvml, card, kind, raw, values):
    fake_nvml.set_answers(("0", f"field.{TEMPERATURE}", raw), ("0", f"type.{TEMPERATURE}", kind))
    assert card.fields((TEMPERATURE,)) == values


def test_newer_function_is_preferred_over_the_older(fake_nvml, card):
    newer, older = pynvml.nvmlDeviceGetTemperatureV, pynvml.nvmlDeviceGetTemperature
    assert card.either(newer, older, pynvml.NVML_TEMPERATURE_GPU) == 61
    assert fake_nvml.calls("0", "nvmlDeviceGetTemperature.0") == 0


def test_unexpected_errors_are_grouped_by_reason_and_reported_once(fake_nvml, card):
    fake_nvml.set_answers(
        *(("0", f"nvmlDeviceGet{name}", UNKNOWN) for name in ("PowerUsage", "MemoryInfo")),
        *(("0", f"nvmlDeviceGetClockInfo.{domain}", f"!{pynvml.NVML_ERROR_RESET_REQUIRED}") for domain in (0, 1)),
    )
    card.ask(pynvml.nvmlDeviceGetPowerUsage)
    card.ask(pynvml.nvmlDeviceGetMemoryInfo)
    card.ask(pynvml.nvmlDeviceGetClockInfo, 0)
    card.ask(pynvml.nvmlDeviceGetClockInfo, 1)
    lines = ["cannot read PowerUsage, MemoryInfo: Unknown Error", "cannot read ClockInfo: GPU requires restart"]
    assert list(card.complaints()) == lines
    assert list(card.complaints()) == []


def test_unknown_error_and_name_that_is_not_utf_8_are_reported(fake_nvml, card):
    fake_nvml.set_answers(("0", "nvmlDeviceGetPowerUsage", "!777"))
    assert card.ask(pynvml.nvmlDeviceGetPowerUsage) is None
    (line,) = card.complaints()
    assert "cannot read PowerUsage: " in line
    fake_nvml.path.write_bytes(b"0 nvmlDeviceGetName \xff\xfe\n")
    assert card.ask(pynvml.nvmlDeviceGetName) is None
    (line,) = card.complaints()
    assert line.startswith("cannot read Name: ")


def test_lost_card_and_unloaded_driver_raise(fake_nvml, card):
    fake_nvml.set_answers(("0", "lost", 1))
    with pytest.raises(nvml.LOST):
        card.ask(pynvml.nvmlDeviceGetPowerUsage)
    fake_nvml.set_answers(("driver", "error", DRIVER_NOT_LOADED))
    with pytest.raises(nvml.GONE):
        card.fields((TEMPERATURE,))


def test_library_that_fails_after_its_start_is_shut_down(fake_nvml):
    fake_nvml.set_answers(("driver", "nvmlDeviceGetCount_v2", UNKNOWN))
    with pytest.raises(pynvml.NVMLError):
        nvml.load()
    assert fake_nvml.calls("driver", "nvmlShutdown") == 1
