"""Read how busy the tensor cores and the memory of a GPU are, through NVML's GPM (GPU performance monitoring).

Hopper and newer cards have it. A value is the mean between two samples of the card's counters, which are taken by two
consecutive reads; NVIDIA asks for at least 0.1 s between them. Source: nvml.h, nvmlGpmMetricsGet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pynvml

from zmon.agent.sources.nvml import Device


@dataclass(frozen=True, slots=True)
class Activity:
    """The mean activity of a card since the previous read; None: unknown."""

    tensor_ratio: float | None = None  # share of the time in which the tensor cores worked, a mean over all of them
    memory_ratio: float | None = None  # bytes read and written, relative to the bandwidth of the card's memory


class _Sample:
    """A place for one sample of a card's counters. It is never freed, because a card needs only two."""

    def __init__(self) -> None:
        self.buffer = pynvml.nvmlGpmSampleAlloc()


class GpmReader:
    """The samples of one card, for as long as the driver stays loaded."""

    def __init__(self, device: Device) -> None:
        self._device = device
        # The last sample, and the place of the next sample; None: the card has no GPM.
        self._samples: tuple[_Sample, _Sample] | None = device.ask(_gpm_samples)
        self._has_last = False

    def read(self) -> Activity:
        """Take a sample and compare it with the previous sample; the first read has no values."""
        if self._samples is None:
            return Activity()
        last, following = self._samples
        had_last = self._has_last
        self._has_last = self._device.ask(_gpm_sample, following) is not None
        if not self._has_last:
            return Activity()
        self._samples = following, last
        return (self._device.ask(_gpm_activity, last, following) if had_last else None) or Activity()


def _gpm_samples(device: Any) -> tuple[_Sample, _Sample] | None:
    """Return places for samples; None if the card has no GPM."""
    return (_Sample(), _Sample()) if pynvml.nvmlGpmQueryDeviceSupport(device).isSupportedDevice else None


def _gpm_sample(device: Any, sample: _Sample) -> _Sample:
    pynvml.nvmlGpmSampleGet(device, sample.buffer)
    return sample


def _gpm_activity(_: Any, before: _Sample, after: _Sample) -> Activity:
    request = pynvml.c_nvmlGpmMetricsGet_t(version=pynvml.NVML_GPM_METRICS_GET_VERSION, numMetrics=2)
    request.sample1, request.sample2 = before.buffer, after.buffer
    request.metrics[0].metricId = pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL
    request.metrics[1].metricId = pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL
    pynvml.nvmlGpmMetricsGet(request)
    return Activity(*map(_ratio, request.metrics[:2]))


def _ratio(metric: Any) -> float | None:
    return metric.value / 100 if metric.nvmlReturn == pynvml.NVML_SUCCESS else None
