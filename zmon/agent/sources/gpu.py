"""Read the state of each GPU of this host through NVML.

Base units: NVML's mW, MHz, percent and KiB become watts, hertz, ratios and bytes. What a card does not offer is
unknown. A card that fell off the bus is reported as lost and hides no other. Each MIG instance has a sample of its own
with its memory and processes; everything else belongs to the card.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pynvml

from zmon.agent.sources import nvml, pci
from zmon.agent.sources.gpm import Activity, GpmReader
from zmon.agent.sources.nvml import ALL_LINKS, Device, Field
from zmon.agent.sources.reading import Reading
from zmon.agent.sources.xid import XidCounts
from zmon.errors import SourceUnavailable
from zmon.schema.host import GpuSample

MEGAHERTZ = 1e6
KIBIBYTE = 1024
CLOCKS = {
    "graphics": pynvml.NVML_CLOCK_GRAPHICS,
    "sm": pynvml.NVML_CLOCK_SM,
    "memory": pynvml.NVML_CLOCK_MEM,
    "video": pynvml.NVML_CLOCK_VIDEO,
}
THROTTLES = {  # idle clocks and clocks set by a person (application, display) are left out: they are no faults
    "sw_power_cap": pynvml.nvmlClocksEventReasonSwPowerCap,
    "hw_slowdown": pynvml.nvmlClocksEventReasonHwSlowdown,
    "sync_boost": pynvml.nvmlClocksEventReasonSyncBoost,
    "sw_thermal": pynvml.nvmlClocksEventReasonSwThermalSlowdown,
    "hw_thermal": pynvml.nvmlClocksEventReasonHwThermalSlowdown,
    "hw_power_brake": pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown,
}
ECC: dict[str, Field] = {
    "volatile_corrected": pynvml.NVML_FI_DEV_ECC_SBE_VOL_TOTAL,
    "volatile_uncorrected": pynvml.NVML_FI_DEV_ECC_DBE_VOL_TOTAL,
    "aggregate_corrected": pynvml.NVML_FI_DEV_ECC_SBE_AGG_TOTAL,
    "aggregate_uncorrected": pynvml.NVML_FI_DEV_ECC_DBE_AGG_TOTAL,
    "remapped_correctable": pynvml.NVML_FI_DEV_REMAPPED_COR,  # rows: Ampere and newer
    "remapped_uncorrectable": pynvml.NVML_FI_DEV_REMAPPED_UNC,
    "retired_pages_correctable": pynvml.NVML_FI_DEV_RETIRED_SBE,  # pages: before Ampere
    "retired_pages_uncorrectable": pynvml.NVML_FI_DEV_RETIRED_DBE,
}
REPAIRS: tuple[Field, ...] = (pynvml.NVML_FI_DEV_RETIRED_PENDING, pynvml.NVML_FI_DEV_REMAPPED_PENDING)
MEMORY_TEMPERATURE: Field = pynvml.NVML_FI_DEV_MEMORY_TEMP
PCIE_RECEIVED: Field = pynvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES
PCIE_SENT: Field = pynvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES
# Bytes per count; the first field is for cards up to Hopper, the second for newer cards.
NVLINK_RECEIVED: dict[Field, int] = {
    (pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, ALL_LINKS): KIBIBYTE,
    (pynvml.NVML_FI_DEV_NVLINK_COUNT_RCV_BYTES, ALL_LINKS): 1,
}
NVLINK_SENT: dict[Field, int] = {
    (pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, ALL_LINKS): KIBIBYTE,
    (pynvml.NVML_FI_DEV_NVLINK_COUNT_XMIT_BYTES, ALL_LINKS): 1,
}
NVLINK_ERRORS: tuple[Field, ...] = (
    pynvml.NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL,
    pynvml.NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL,
    pynvml.NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL,
    pynvml.NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL,
)
FIELDS = (
    *ECC.values(), *REPAIRS, MEMORY_TEMPERATURE, PCIE_RECEIVED, PCIE_SENT,
    *NVLINK_RECEIVED, *NVLINK_SENT, *NVLINK_ERRORS,
)  # fmt: skip


class GpuSource:
    """Every card that the driver has, and its MIG instances."""

    name = "gpu"
    field = "gpus"
    interval_seconds = 1.0

    def __init__(self, sys: Path = Path("/sys")) -> None:
        self._sys = sys
        self._xids = XidCounts()
        self._cards: tuple[Card, ...] = ()
        self._loaded = self._was_loaded = False

    def read(self) -> Reading:
        """Return one sample per card by index, each followed by its MIG instances."""
        if not self._loaded:
            self._load()
        samples: list[GpuSample] = []
        dropped: list[str] = []
        try:
            for card in self._cards:
                samples += card.read()
                dropped += card.complaints()
            dropped += self._xids.collect()
        except nvml.GONE:
            self._loaded = False
            nvml.unload()
            raise
        samples = [replace(sample, xid_errors=self._xids.counts(sample.uuid)) for sample in samples]
        return Reading(tuple(samples), tuple(dropped))

    def _load(self) -> None:
        try:
            count = nvml.load()
        except nvml.ABSENT as error:
            if self._was_loaded:  # the driver was there and is gone: a failure, not an absence
                raise
            raise SourceUnavailable(
                "cannot read GPUs", str(error), "install the NVIDIA driver if this host has GPUs"
            ) from error
        self._loaded = self._was_loaded = True
        self._xids.forget()
        self._cards = tuple(Card(index, self._sys, self._xids) for index in range(count))


class Card:
    """One GPU, for as long as the driver stays loaded."""

    def __init__(self, index: int, sys: Path, xids: XidCounts) -> None:
        self._sys = sys
        self._xids = xids
        self._fixed = GpuSample(gpu=str(index), uuid="")  # the values that do not change
        self._device: Device | None = None
        self._gpm: GpmReader | None = None
        self._instances: dict[str, Device] = {}
        self._mig: bool | None = None
        self._broken: str | None = None  # the reason why the card could not be opened

    def read(self) -> tuple[GpuSample, ...]:
        """Return the card and its instances; nothing if it cannot be opened."""
        self._broken = None
        try:
            if self._device is None:
                self._device = self._open()
            card = self._sample(self._device)
            return (card, *(self._instance_samples(self._device) if card.mig else ()))
        except nvml.LOST:
            return (replace(self._fixed, lost=True, max_clocks_hertz={}),)
        except nvml.GONE:
            raise
        except nvml.FAILURES as error:
            self._broken = str(error)
            return ()

    def complaints(self) -> Iterator[str]:
        """Yield a line for each reason why something is missing."""
        gpu = self._fixed.gpu
        if self._broken is not None:
            yield f"GPU {gpu}: cannot be opened: {self._broken}"
        for name, device in ((gpu, self._device), *self._instances.items()):
            if device is not None:
                yield from (f"GPU {name}: {line}" for line in device.complaints())

    def _open(self) -> Device:
        device = Device(pynvml.nvmlDeviceGetHandleByIndex(int(self._fixed.gpu)))
        self._fixed = replace(self._fixed, uuid=pynvml.nvmlDeviceGetUUID(device.handle))
        info = device.ask(pynvml.nvmlDeviceGetPciInfo_v3)
        address = None if info is None else sysfs_address(info.busId)
        self._fixed = replace(
            self._fixed,
            pci=address,
            nics=() if address is None else pci.nearest_nics(self._sys, address),
            name=device.ask(pynvml.nvmlDeviceGetName),
            minor=device.ask(pynvml.nvmlDeviceGetMinorNumber),
            max_clocks_hertz=_clocks(device, pynvml.nvmlDeviceGetMaxClockInfo),
        )
        self._xids.watch(self._fixed.uuid, device.handle)
        return device

    def _sample(self, device: Device) -> GpuSample:
        mode = device.ask(pynvml.nvmlDeviceGetMigMode)
        mig = None if mode is None else bool(mode[0])
        if mig is not self._mig:
            device.forget()  # a card in MIG mode offers other values than a whole one
            self._gpm = None if mig else GpmReader(device)
        self._mig = mig
        activity = Activity() if self._gpm is None else self._gpm.read()
        memory = device.ask(pynvml.nvmlDeviceGetMemoryInfo)
        rates = device.ask(pynvml.nvmlDeviceGetUtilizationRates)
        power = device.ask(pynvml.nvmlDeviceGetPowerUsage)
        limit = device.ask(pynvml.nvmlDeviceGetEnforcedPowerLimit)
        reasons = device.either(
            pynvml.nvmlDeviceGetCurrentClocksEventReasons, pynvml.nvmlDeviceGetCurrentClocksThrottleReasons
        )
        fields = device.fields(FIELDS)
        return replace(
            self._fixed,
            memory_used_bytes=memory and memory.used,
            memory_total_bytes=memory and memory.total,
            utilization_ratio=rates and rates.gpu / 100,
            tensor_active_ratio=activity.tensor_ratio,
            memory_active_ratio=activity.memory_ratio,
            power_watts=None if power is None else power / 1000,
            power_limit_watts=None if limit is None else limit / 1000,
            temperature_celsius=device.either(
                pynvml.nvmlDeviceGetTemperatureV, pynvml.nvmlDeviceGetTemperature, pynvml.NVML_TEMPERATURE_GPU
            ),
            memory_temperature_celsius=fields.get(MEMORY_TEMPERATURE),
            clocks_hertz=_clocks(device, pynvml.nvmlDeviceGetClockInfo),
            throttled=throttle_reasons(reasons),
            ecc_errors={kind: count for kind, field in ECC.items() if (count := fields.get(field)) is not None},
            repair_pending=is_repair_pending(fields),
            pcie_received_bytes=fields.get(PCIE_RECEIVED),
            pcie_sent_bytes=fields.get(PCIE_SENT),
            nvlink_received_bytes=nvlink_bytes(fields, NVLINK_RECEIVED),
            nvlink_sent_bytes=nvlink_bytes(fields, NVLINK_SENT),
            nvlink_errors=nvlink_errors(fields),
            mig=mig,
            pids=_pids(device),
        )

    def _instance_samples(self, device: Device) -> Iterator[GpuSample]:
        for index in range(device.ask(pynvml.nvmlDeviceGetMaxMigDeviceCount) or 0):
            handle = device.ask(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, index)
            if handle is None:
                continue
            name = f"{self._fixed.gpu}:{index}"
            instance = self._instances.setdefault(name, Device(handle))
            instance.handle = handle  # the driver may have made the instance again
            uuid = instance.ask(pynvml.nvmlDeviceGetUUID)
            memory = instance.ask(pynvml.nvmlDeviceGetMemoryInfo)
            if uuid is not None:
                yield GpuSample(
                    gpu=name,
                    uuid=uuid,
                    name=instance.ask(pynvml.nvmlDeviceGetName),
                    pci=self._fixed.pci,
                    memory_used_bytes=memory and memory.used,
                    memory_total_bytes=memory and memory.total,
                    pids=_pids(instance),
                    nics=self._fixed.nics,
                )


def sysfs_address(bus_id: str) -> str:
    """Return sysfs's 0000:3b:00.0 for NVML's 00000000:3B:00.0: the domain has four digits, or more if needed."""
    domain, _, device = bus_id.lower().partition(":")
    return f"{int(domain, 16):04x}:{device}"


def nvlink_bytes(fields: Mapping[Field, int | None], counters: Mapping[Field, int]) -> int | None:
    """Return the bytes from the counter that this generation of cards has."""
    return next((count * unit for field, unit in counters.items() if (count := fields.get(field)) is not None), None)


def nvlink_errors(fields: Mapping[Field, int | None]) -> int | None:
    """Return the sum of the errors that the card counts; None if one cannot be read, so that the sum never falls."""
    counts = [fields[field] for field in NVLINK_ERRORS if field in fields]
    known = [count for count in counts if count is not None]
    return sum(known) if counts and len(known) == len(counts) else None


def is_repair_pending(fields: Mapping[Field, int | None]) -> bool | None:
    """Return True if a repair waits for a reset. Depending on its generation, a card retires pages or remaps rows."""
    known = [pending for field in REPAIRS if (pending := fields.get(field)) is not None]
    return any(known) if known else None


def throttle_reasons(bits: int | None) -> dict[str, bool]:
    """Return whether the card throttles, by reason."""
    return {} if bits is None else {name: bool(bits & bit) for name, bit in THROTTLES.items()}


def _clocks(device: Device, function: Callable[..., Any]) -> dict[str, float]:
    clocks = {domain: device.ask(function, number) for domain, number in CLOCKS.items()}
    return {domain: clock * MEGAHERTZ for domain, clock in clocks.items() if clock is not None}


def _pids(device: Device) -> tuple[int, ...]:
    # The name without `_v3` raises an error that is not an NVMLError if the library lacks the function.
    processes = device.ask(pynvml.nvmlDeviceGetComputeRunningProcesses_v3)
    return tuple(sorted({process.pid for process in processes or ()}))
