"""The YAML file with the peaks of a site's devices, by device name.

    Intel(R) Xeon(R) Platinum 8481C, 176 processors:
      flops: {float32: 9100000000000, bfloat16: 61000000000000}
      memory_bandwidth: 410000000000
      source: measured by zmon bench-peak

`zmon bench-peak --out` writes it, and a person may edit it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
import yaml

from zmon.errors import UsageError
from zmon.files.writing import replace_file
from zmon.scaling.peaks import DevicePeaks

_MOST = 1e20  # operations or bytes per second, more than any device has


def read(path: Path) -> dict[str, DevicePeaks]:
    """Read the file. Raises UsageError if it cannot be used."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        peaks = msgspec.convert(content, dict[str, DevicePeaks], strict=False)
        for device, each in peaks.items():
            rates = (*each.flops.values(), *([] if each.memory_bandwidth is None else [each.memory_bandwidth]))
            if not all(0 < rate < _MOST for rate in rates):
                raise ValueError(f"{device} has a rate that is not possible")
        return peaks
    except (OSError, ValueError, yaml.YAMLError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error).splitlines()[0]
        raise UsageError(
            f"cannot use {path}",
            str(why),
            "Write the file with zmon bench-peak --out, or as in docs/efficiency.md",
        ) from error


def write(path: Path, peaks: Mapping[str, DevicePeaks]) -> None:
    """Write these devices into the file, which keeps the others. Raises UsageError."""
    merged = {**(read(path) if path.exists() else {}), **peaks}
    content = {
        device: {
            "flops": {dtype: round(rate) for dtype, rate in each.flops.items()},
            "memory_bandwidth": None if each.memory_bandwidth is None else round(each.memory_bandwidth),
            "source": each.source,
        }
        for device, each in merged.items()
    }
    try:
        replace_file(path, [yaml.safe_dump(content, sort_keys=False, allow_unicode=True).encode()])
    except OSError as error:
        raise UsageError(f"cannot write {path}", error.strerror or str(error), "Choose another --out") from error
