"""The peak rates of devices: floating-point operations per second by dtype, and memory bandwidth.

Pure. A GPU has the dense rates of its datasheet: figures "with sparsity" are halved (`989 / 2`). A device that is not
listed has no peak, so that its ratio is absent instead of wrong. A site measures its CPUs with `zmon bench-peak`. It
may add or correct any device in the same file (`zmon hub --peaks`).

Dtypes have torch's names, except `tf32` (float32 values that the tensor cores round) and `float8` (both formats).
float64 is the rate of the tensor cores, where the device has them for float64.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_TERA = 1e12


@dataclass(frozen=True, slots=True)
class DevicePeaks:
    """The peak rates of one device. The fields are the keys of a file of peaks."""

    flops: Mapping[str, float]  # dtype → floating-point operations per second
    memory_bandwidth: float | None = None  # bytes/s, reads and writes together; None: unknown
    source: str = ""  # where the rates come from

    def flops_of(self, shares: Mapping[str, float]) -> float | None:
        """Return the peak of work in several dtypes; `shares` has the share of each dtype in the operations.

        None if the work or the peak of one of its dtypes is unknown. Each dtype takes its share at its own peak, so the
        peak of all is the harmonic mean.
        """
        used = {dtype: share for dtype, share in shares.items() if share > 0}
        if not used or not used.keys() <= self.flops.keys():
            return None
        return sum(used.values()) / sum(share / self.flops[dtype] for dtype, share in used.items())


_V100 = "NVIDIA V100 Tensor Core GPU datasheet, January 2020"
_T4 = "NVIDIA T4 Tensor Core GPU datasheet"
_A10 = "NVIDIA A10 Tensor Core GPU datasheet"
_A100 = "NVIDIA A100 Tensor Core GPU datasheet, June 2021"
_L4 = "NVIDIA L4 Tensor Core GPU datasheet; half of the rates with sparsity"
_L40S = "NVIDIA L40S datasheet; the rates without sparsity"
_H100 = "NVIDIA H100 Tensor Core GPU datasheet; half of the rates with sparsity"
_H200 = "NVIDIA H200 Tensor Core GPU datasheet; half of the rates with sparsity"
_B200 = "NVIDIA HGX B200 datasheet, an eighth of its rates, half of those with sparsity; memory: DGX B200"
_MI250X = "AMD Instinct MI250X datasheet, half of a card"  # a card has two devices (GCDs)
_MI300X = "AMD Instinct MI300X datasheet"
_MI325X = "AMD Instinct MI325X datasheet"
_DTYPES = ("float64", "float32", "tf32", "bfloat16", "float16", "float8")  # the columns of the table below


def _tera(source: str, memory: float | None, *flops: float | None) -> DevicePeaks:
    """Return peaks from TB/s and the TFLOP/s of `_DTYPES`, as datasheets give them; None: there is no such rate."""
    rates = {dtype: rate * _TERA for dtype, rate in zip(_DTYPES, flops, strict=True) if rate is not None}
    return DevicePeaks(rates, None if memory is None else memory * _TERA, source)


# The name that the driver gives to a device, as a pattern that matches all of it; the first one that matches counts.
# The columns: datasheet, memory bandwidth, `_DTYPES`. The datasheets of the T4 differ in its memory bandwidth.
DATASHEETS: tuple[tuple[str, DevicePeaks], ...] = (
    (r"Tesla V100-SXM2-\d+GB(-LS)?", _tera(_V100, 0.9, 7.8, 15.7, None, None, 125, None)),
    (r"Tesla V100-PCIE-\d+GB", _tera(_V100, 0.9, 7, 14, None, None, 112, None)),
    (r"Tesla V100S-PCIE-32GB", _tera(_V100, 1.134, 8.2, 16.4, None, None, 130, None)),
    (r"(Tesla|NVIDIA) T4", _tera(_T4, None, None, 8.1, None, None, 65, None)),
    (r"(NVIDIA )?A100-SXM4-40GB", _tera(_A100, 1.555, 19.5, 19.5, 156, 312, 312, None)),
    (r"(NVIDIA )?A100-SXM4-80GB", _tera(_A100, 2.039, 19.5, 19.5, 156, 312, 312, None)),
    (r"(NVIDIA )?A100-PCIE-40GB", _tera(_A100, 1.555, 19.5, 19.5, 156, 312, 312, None)),
    (r"(NVIDIA )?A100[ -]80GB PCIe", _tera(_A100, 1.935, 19.5, 19.5, 156, 312, 312, None)),
    (r"NVIDIA A10", _tera(_A10, 0.6, None, 31.2, 62.5, 125, 125, None)),
    (r"NVIDIA L4", _tera(_L4, 0.3, None, 30.3, 120 / 2, 242 / 2, 242 / 2, 485 / 2)),
    (r"NVIDIA L40S", _tera(_L40S, 0.864, None, 91.6, 183, 362.05, 362.05, 733)),
    (r"NVIDIA H100 80GB HBM3", _tera(_H100, 3.35, 67, 67, 989 / 2, 1979 / 2, 1979 / 2, 3958 / 2)),
    (r"NVIDIA H100 PCIe", _tera(_H100, 2.0, 51, 51, 756 / 2, 1513 / 2, 1513 / 2, 3026 / 2)),
    (r"NVIDIA H100 NVL", _tera(_H100, 3.9, 60, 60, 835 / 2, 1671 / 2, 1671 / 2, 3341 / 2)),
    (r"NVIDIA H200", _tera(_H200, 4.8, 67, 67, 989 / 2, 1979 / 2, 1979 / 2, 3958 / 2)),
    (r"NVIDIA B200", _tera(_B200, 8.0, None, 75, 2250 / 2, 4500 / 2, 4500 / 2, 9000 / 2)),
    (r"AMD Instinct MI250X", _tera(_MI250X, 3.2768 / 2, 95.7 / 2, 95.7 / 2, None, 383 / 2, 383 / 2, None)),
    (r"AMD Instinct MI300X", _tera(_MI300X, 5.3, 163.4, 163.4, 653.7, 1307.4, 1307.4, 2614.9)),
    (r"AMD Instinct MI325X", _tera(_MI325X, 6.0, 163.4, 163.4, 653.7, 1307.4, 1307.4, 2614.9)),
)


def peaks_of(device: str, measured: Mapping[str, DevicePeaks]) -> DevicePeaks | None:
    """Return the peaks of a device by its name, or None if they are unknown.

    `measured` has the peaks that the site has measured, by the whole name. They take precedence over the datasheets.
    """
    if device in measured:
        return measured[device]
    return next((peaks for pattern, peaks in DATASHEETS if re.fullmatch(pattern, device)), None)


def processors_name(cpuinfo: str) -> str:
    """Return the device name of a host's processors from the content of /proc/cpuinfo; empty if it has no model.

    Hosts with the same model and another number of processors have other peaks, so the number is part of the name.
    """
    models = re.findall(r"^model name\s*: *(.+)$", cpuinfo, re.M)
    return f"{' '.join(models[0].split())}, {len(models)} processors" if models else ""
