"""Tests of NVML queries. An unsupported value is queried only once, and a failure is reported once per read."""

import pynvml
import pytest

from tests.agent.sources.nvml import DRIVER_NOT_LOADED, NOT_SUPPORTED, UNKNOWN
from zmon.agent.sources import nvml
from zmon.agent.sources.nvml import Device

NUM_READS = 3


@pytest.fixture
def card(fake_nvml):
    nvml.load()
    return Device(pynvml.nvmlDeviceGetHandleByIndex(0))


@pytest.mark.parametrize("answer", [NOT_SUPPORTED, "!26"])  # 26: deprecated in newer drivers
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


@pytest.mark.parametrize("code", [2, 3, 26])
def test_unsupported_field_is_not_read_again(fake_nvml, card, code):
    fake_nvml.set_answers(("0", "field.82", f"!{code}"), ("0", "field.3", 0))
    assert [card.fields((82, 3)) for _ in range(NUM_READS)] == [{3: 0}] * NUM_READS
    assert (fake_nvml.calls("0", "field.82"), fake_nvml.calls("0", "field.3")) == (1, NUM_READS)


def test_field_that_failed_is_unknown_and_read_again(fake_nvml, card):
    fake_nvml.set_answers(("0", "field.82", UNKNOWN))
    assert card.fields((82,)) == {82: None}
    assert list(card.complaints()) == ["cannot read field 82: Unknown Error"]
    fake_nvml.set_answers(("0", "field.82", 70))
    assert card.fields((82,)) == {82: 70}


def test_fields_of_a_card_without_fields_are_not_read_again(fake_nvml, card):
    fake_nvml.set_answers(("0", "nvmlDeviceGetFieldValues", NOT_SUPPORTED))
    assert [card.fields((82, 3)) for _ in range(NUM_READS)] == [{}] * NUM_READS
    assert fake_nvml.calls("0", "nvmlDeviceGetFieldValues") == 1


@pytest.mark.parametrize(
    ("kind", "raw", "values"),
    [(1, 2**32 + 5, {82: 5}), (3, 2**40, {82: 2**40}), (5, -3, {82: -3}), (6, 70, {82: 70}), (99, 5, {})],
)
def test_field_is_read_by_its_type_and_unknown_if_that_is(fake_nvml, card, kind, raw, values):
    fake_nvml.set_answers(("0", "field.82", raw), ("0", "type.82", kind))
    assert card.fields((82,)) == values


def test_newer_function_is_preferred_over_the_older(fake_nvml, card):
    newer, older = pynvml.nvmlDeviceGetTemperatureV, pynvml.nvmlDeviceGetTemperature
    assert card.either(newer, older, pynvml.NVML_TEMPERATURE_GPU) == 61
    assert fake_nvml.calls("0", "nvmlDeviceGetTemperature.0") == 0


def test_unexpected_errors_are_grouped_by_reason_and_reported_once(fake_nvml, card):
    fake_nvml.set_answers(
        *(("0", f"nvmlDeviceGet{name}", UNKNOWN) for name in ("PowerUsage", "MemoryInfo")),
        *(("0", f"nvmlDeviceGetClockInfo.{domain}", "!16") for domain in (0, 1)),
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
        card.fields((82,))


def test_library_that_fails_after_its_start_is_shut_down(fake_nvml):
    fake_nvml.set_answers(("driver", "nvmlDeviceGetCount_v2", UNKNOWN))
    with pytest.raises(pynvml.NVMLError):
        nvml.load()
    assert fake_nvml.calls("driver", "nvmlShutdown") == 1
