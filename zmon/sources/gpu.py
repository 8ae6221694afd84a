"""What do the GPUs of this host show? Read through NVML.

A card that does not know a value leaves it unknown; a host without the driver has no such source.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pynvml

from zmon.errors import SourceUnavailable
from zmon.hardware import GpuSample


class GpuSource:
    """Memory, utilization, power, temperature and the processes of each card."""

    name = "gpu"
    field = "gpus"
    interval_seconds = 1.0

    def __init__(self) -> None:
        self._ready = False

    def read(self) -> tuple[GpuSample, ...]:
        """One sample per card, by index."""
        if not self._ready:
            try:
                pynvml.nvmlInit()
            except pynvml.NVMLError as error:
                raise SourceUnavailable(
                    "cannot read GPUs", str(error), "install the NVIDIA driver if there should be any"
                ) from error
            self._ready = True
        try:
            samples = (_sample(index) for index in range(pynvml.nvmlDeviceGetCount()))
            return tuple(sample for sample in samples if sample is not None)
        except pynvml.NVMLError:
            self._ready = False  # the driver may have been reloaded: begin anew next time
            raise


def _sample(index: int) -> GpuSample | None:
    """One card; None where it is lost: it has no values, and hides no other."""
    try:
        return _read(index)
    except pynvml.NVMLError_GpuIsLost:
        return None


def _read(index: int) -> GpuSample:
    card = pynvml.nvmlDeviceGetHandleByIndex(index)
    memory = _known(pynvml.nvmlDeviceGetMemoryInfo, card)
    rates = _known(pynvml.nvmlDeviceGetUtilizationRates, card)
    power = _known(pynvml.nvmlDeviceGetPowerUsage, card)
    processes = _known(pynvml.nvmlDeviceGetComputeRunningProcesses, card)
    return GpuSample(
        index=index,
        uuid=pynvml.nvmlDeviceGetUUID(card),
        memory_used_bytes=memory and memory.used,
        memory_total_bytes=memory and memory.total,
        utilization_ratio=rates and rates.gpu / 100,
        power_watts=None if power is None else power / 1000,
        temperature_celsius=_known(pynvml.nvmlDeviceGetTemperature, card, pynvml.NVML_TEMPERATURE_GPU),
        pids=tuple(process.pid for process in processes or ()),
    )


def _known(ask: Callable[..., Any], *args: Any) -> Any:
    try:
        return ask(*args)
    except pynvml.NVMLError_NotSupported:
        return None
