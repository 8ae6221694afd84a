"""Reads and writes what `zmon bench-comm` and `zmon bench-peak` measured: links as JSON, peaks of devices as YAML.

A person may edit the file of peaks. It has them by device name:

    Intel(R) Xeon(R) Platinum 8481C, 176 processors:
      flops: {float32: 9100000000000, bfloat16: 61000000000000}
      memory_bandwidth: 410000000000
      source: measured by zmon bench-peak
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
import yaml

from zmon.errors import UsageError
from zmon.scaling.bandwidth import MeasuredLinks
from zmon.scaling.peaks import DevicePeaks
from zmon.steplog.files import replace_file
from zmon.yaml_text import load_yaml

_MAX_RATE = 1e20  # operations or bytes per second, more than any device has


class _LinksFile(msgspec.Struct):
    schema: int
    recorded: float  # unix seconds
    measured: MeasuredLinks


def write_links(path: Path, measured: MeasuredLinks, now: float) -> None:
    """Write a file of links, completely or not at all."""
    replace_file(path, [msgspec.json.encode(_LinksFile(schema=1, recorded=now, measured=measured))])


def read_links(path: Path) -> MeasuredLinks:
    """Read a file of links. Raises UsageError if `zmon bench-comm` has not written it."""
    try:
        measured = msgspec.json.decode(path.read_bytes(), type=_LinksFile).measured
        if not all(t.ranks > 1 and t.num_bytes >= 0 and t.seconds > 0 for t in measured.timed):
            raise ValueError("it has a duration or size that is not valid")
        return measured
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"cannot use {path}", str(why), "Write one with zmon bench-comm --out") from error


def read_peaks(path: Path) -> dict[str, DevicePeaks]:
    """Read a file of peaks. Raises UsageError if it cannot be used."""
    try:
        content = load_yaml(path.read_text(encoding="utf-8")) or {}
        peaks = msgspec.convert(content, dict[str, DevicePeaks], strict=False)
        for name, device in peaks.items():
            rates = (*device.flops.values(), device.memory_bandwidth)
            if not all(rate is None or 0 < rate < _MAX_RATE for rate in rates):
                raise ValueError(f"{name} has a rate that is not possible")
        return peaks
    except (OSError, ValueError, yaml.YAMLError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error).splitlines()[0]
        next_step = "Write the file with zmon bench-peak --out, or as in docs/efficiency.md"
        raise UsageError(f"cannot use {path}", str(why), next_step) from error


def write_peaks(path: Path, peaks: Mapping[str, DevicePeaks]) -> None:
    """Write these devices into a file of peaks, which keeps the others. Raises UsageError."""
    merged = {**(read_peaks(path) if path.exists() else {}), **peaks}
    content = {
        name: {
            "flops": {dtype: round(rate) for dtype, rate in device.flops.items()},
            "memory_bandwidth": None if device.memory_bandwidth is None else round(device.memory_bandwidth),
            "source": device.source,
        }
        for name, device in merged.items()
    }
    try:
        replace_file(path, [yaml.safe_dump(content, sort_keys=False, allow_unicode=True).encode()])
    except OSError as error:
        raise UsageError(f"cannot write {path}", error.strerror or str(error), "Choose another --out") from error
