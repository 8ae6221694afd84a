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
    """The peak rates of one device."""

    flops: Mapping[str, float]  # dtype → floating-point operations per second
    memory_bandwidth: float | None = None  # bytes/s, reads and writes together; None: unknown
    source: str = ""

    def flops_of(self, shares: Mapping[str, float]) -> float | None:
        """Return the peak of work in several dtypes; `shares` has the share of each dtype in the operations.

        None if the work or the peak of one of its dtypes is unknown. Each dtype takes its share at its own peak, so the
        peak of all is the harmonic mean.
        """
        used = {dtype: share for dtype, share in shares.items() if share > 0}
        if not used or not used.keys() <= self.flops.keys():
            return None
        return sum(used.values()) / sum(share / self.flops[dtype] for dtype, share in used.items())


def _tera(memory: float | None, source: str, **flops: float) -> DevicePeaks:
    """Return peaks from TFLOP/s and TB/s, as datasheets give them."""
    rates = {dtype: rate * _TERA for dtype, rate in flops.items()}
    return DevicePeaks(rates, None if memory is None else memory * _TERA, source)


_V100 = "NVIDIA V100 Tensor Core GPU datasheet, January 2020"
_A100 = "NVIDIA A100 Tensor Core GPU datasheet, June 2021"
_H100 = "NVIDIA H100 Tensor Core GPU datasheet; half of the rates with sparsity"
_H200 = "NVIDIA H200 Tensor Core GPU datasheet; half of the rates with sparsity"
_AMPERE = {"float64": 19.5, "float32": 19.5, "tf32": 156.0, "bfloat16": 312.0, "float16": 312.0}
_HOPPER = {
    "float64": 67.0, "float32": 67.0, "tf32": 989 / 2, "bfloat16": 1979 / 2, "float16": 1979 / 2,
    "float8": 3958 / 2,
}  # fmt: skip
_CDNA3 = {
    "float64": 163.4, "float32": 163.4, "tf32": 653.7, "bfloat16": 1307.4, "float16": 1307.4, "float8": 2614.9,
}  # fmt: skip

# The name that the driver gives to a device, as a pattern that matches all of it; the first one that matches counts.
DATASHEETS: tuple[tuple[str, DevicePeaks], ...] = (
    (r"Tesla V100-SXM2-\d+GB(-LS)?", _tera(0.9, _V100, float64=7.8, float32=15.7, float16=125)),
    (r"Tesla V100-PCIE-\d+GB", _tera(0.9, _V100, float64=7, float32=14, float16=112)),
    (r"Tesla V100S-PCIE-32GB", _tera(1.134, _V100, float64=8.2, float32=16.4, float16=130)),
    # Its datasheets give 300 and 320 GB/s.
    (r"(Tesla|NVIDIA) T4", _tera(None, "NVIDIA T4 Tensor Core GPU datasheet", float32=8.1, float16=65)),
    (r"(NVIDIA )?A100-SXM4-40GB", _tera(1.555, _A100, **_AMPERE)),
    (r"(NVIDIA )?A100-SXM4-80GB", _tera(2.039, _A100, **_AMPERE)),
    (r"(NVIDIA )?A100-PCIE-40GB", _tera(1.555, _A100, **_AMPERE)),
    (r"(NVIDIA )?A100[ -]80GB PCIe", _tera(1.935, _A100, **_AMPERE)),
    (
        r"NVIDIA A10",
        _tera(0.6, "NVIDIA A10 Tensor Core GPU datasheet", float32=31.2, tf32=62.5, bfloat16=125, float16=125),
    ),
    (
        r"NVIDIA L4",
        _tera(
            0.3, "NVIDIA L4 Tensor Core GPU datasheet; half of the rates with sparsity", float32=30.3,
            tf32=120 / 2, bfloat16=242 / 2, float16=242 / 2, float8=485 / 2,
        ),
    ),
    (
        r"NVIDIA L40S",
        _tera(
            0.864, "NVIDIA L40S datasheet; the rates without sparsity", float32=91.6,
            tf32=183, bfloat16=362.05, float16=362.05, float8=733,
        ),
    ),
    (r"NVIDIA H100 80GB HBM3", _tera(3.35, _H100, **_HOPPER)),
    (
        r"NVIDIA H100 PCIe",
        _tera(
            2.0, _H100, float64=51, float32=51, tf32=756 / 2, bfloat16=1513 / 2, float16=1513 / 2,
            float8=3026 / 2,
        ),
    ),
    (
        r"NVIDIA H100 NVL",
        _tera(
            3.9, _H100, float64=60, float32=60, tf32=835 / 2, bfloat16=1671 / 2, float16=1671 / 2,
            float8=3341 / 2,
        ),
    ),
    (r"NVIDIA H200", _tera(4.8, _H200, **_HOPPER)),
    (
        r"NVIDIA B200",
        _tera(
            8.0, "NVIDIA HGX B200 datasheet, an eighth of its rates, half of those with sparsity; memory: DGX B200",
            float32=75, tf32=2250 / 2, bfloat16=4500 / 2, float16=4500 / 2, float8=9000 / 2,
        ),
    ),
    # A card has two devices (GCDs), and the datasheet has the rates of the card.
    (
        r"AMD Instinct MI250X",
        _tera(
            3.2768 / 2, "AMD Instinct MI250X datasheet, half of a card", float64=95.7 / 2, float32=95.7 / 2,
            bfloat16=383 / 2, float16=383 / 2,
        ),
    ),
    (r"AMD Instinct MI300X", _tera(5.3, "AMD Instinct MI300X datasheet", **_CDNA3)),
    (r"AMD Instinct MI325X", _tera(6.0, "AMD Instinct MI325X datasheet", **_CDNA3)),
)  # fmt: skip


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
