"""What do the GPUs show? A host without the driver has none: that is absent, not down."""

from types import SimpleNamespace

import pynvml
import pytest

from zmon.errors import SourceUnavailable
from zmon.sources.gpu import GpuSource


class FakeNvml:
    """Cards as NVML shows them; what is an exception is raised."""

    def __init__(self, *cards):
        self.cards = cards
        self.started = 0

    def install(self, monkeypatch):
        for name, ask in {
            "nvmlInit": self.init,
            "nvmlDeviceGetCount": lambda: len(self.cards),
            "nvmlDeviceGetHandleByIndex": lambda index: self.answer(index, "handle", index),
            "nvmlDeviceGetUUID": lambda card: self.answer(card, "uuid", f"GPU-{card}"),
            "nvmlDeviceGetMemoryInfo": lambda card: self.answer(card, "memory", SimpleNamespace(used=10, total=100)),
            "nvmlDeviceGetUtilizationRates": lambda card: self.answer(card, "rates", SimpleNamespace(gpu=50)),
            "nvmlDeviceGetPowerUsage": lambda card: self.answer(card, "power", 300_000),
            "nvmlDeviceGetTemperature": lambda card, kind: self.answer(card, "temperature", 61),
            "nvmlDeviceGetComputeRunningProcesses": lambda card: self.answer(card, "pids", [SimpleNamespace(pid=7)]),
        }.items():
            monkeypatch.setattr(pynvml, name, ask)
        return GpuSource()

    def init(self):
        self.started += 1

    def answer(self, card, what, usual):
        value = self.cards[card].get(what, usual)
        if isinstance(value, Exception):
            raise value
        return value


def test_card_shows_what_it_has(monkeypatch):
    (card,) = FakeNvml({}).install(monkeypatch).read().value
    assert (card.gpu, card.uuid, card.pids) == ("0", "GPU-0", (7,))
    assert (card.memory_used_bytes, card.memory_total_bytes, card.utilization_ratio) == (10, 100, 0.5)
    assert (card.power_watts, card.temperature_celsius) == (300.0, 61)


def test_what_a_card_does_not_tell_is_unknown(monkeypatch):
    none = pynvml.NVMLError_NotSupported()
    silent = dict.fromkeys(("memory", "rates", "power", "temperature", "pids"), none)
    first, second = FakeNvml(silent, {}).install(monkeypatch).read().value
    assert (first.memory_used_bytes, first.utilization_ratio, first.power_watts) == (None, None, None)
    assert (first.temperature_celsius, first.pids) == (None, ())
    assert second.power_watts == 300.0


def test_idle_card_is_zero_and_not_unknown(monkeypatch):
    idle = {"memory": SimpleNamespace(used=0, total=100), "rates": SimpleNamespace(gpu=0), "power": 0}
    (card,) = FakeNvml(idle).install(monkeypatch).read().value
    assert (card.memory_used_bytes, card.utilization_ratio, card.power_watts) == (0, 0.0, 0.0)


@pytest.mark.parametrize("what", ["handle", "memory", "power"])
def test_card_that_fell_off_the_bus_hides_no_other(monkeypatch, what):
    """It is when one card is lost that the others matter."""
    lost = {what: pynvml.NVMLError_GpuIsLost()}
    cards = {int(card.gpu): card for card in FakeNvml({}, lost, {}).install(monkeypatch).read().value}
    assert cards[0].power_watts == cards[2].power_watts == 300.0


@pytest.mark.parametrize("error", [pynvml.NVMLError_LibraryNotFound, pynvml.NVMLError_DriverNotLoaded])
def test_host_without_the_driver_has_no_such_source(monkeypatch, error):
    nvml = FakeNvml()
    source = nvml.install(monkeypatch)

    def fail():
        raise error()

    monkeypatch.setattr(pynvml, "nvmlInit", fail)
    with pytest.raises(SourceUnavailable, match="install the NVIDIA driver"):
        source.read().value


def test_driver_that_was_reloaded_is_begun_anew(monkeypatch):
    nvml = FakeNvml({})
    source = nvml.install(monkeypatch)
    source.read().value
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCount", lambda: (_ for _ in ()).throw(pynvml.NVMLError_Uninitialized()))
    with pytest.raises(pynvml.NVMLError):
        source.read().value
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCount", lambda: 1)
    source.read().value
    assert nvml.started == 2
