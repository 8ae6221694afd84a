"""What did each network interface carry, and is its link up?

Layout: Documentation/ABI/testing/sysfs-class-net and -statistics. One odd interface never hides the others: what
cannot be read of it is unknown.
"""

from __future__ import annotations

from pathlib import Path

from zmon.errors import SourceUnavailable
from zmon.hardware import NicSample

ERROR_COUNTERS = ("rx_errors", "tx_errors", "rx_dropped", "tx_dropped")
MEGABIT = 1_000_000 / 8  # `speed` is in Mbit/s


class NicSource:
    """Every interface under /sys/class/net that is, or has ever been, up."""

    name = "nic"
    field = "nics"
    interval_seconds = 1.0

    def __init__(self, sys: Path = Path("/sys")) -> None:
        self._root = sys / "class/net"

    def read(self) -> tuple[NicSample, ...]:
        """One sample per interface, by name."""
        try:
            folders = sorted(f for f in self._root.iterdir() if f.is_dir())
        except OSError as error:
            raise SourceUnavailable(
                f"cannot read {self._root}", f"{error.strerror}", "mount /sys where the agent runs"
            ) from error
        samples = (_sample(folder) for folder in folders)
        return tuple(s for s in samples if s.up or s.received_bytes or s.transmitted_bytes)


def _sample(folder: Path) -> NicSample:
    carrier = _number(folder / "carrier")  # reading it fails while the interface is down
    state = _text(folder / "operstate")
    speed = _number(folder / "speed")
    errors = {name: _number(folder / "statistics" / name) for name in ERROR_COUNTERS}
    return NicSample(
        device=folder.name,
        transport="tcp",
        up=bool(carrier) if carrier is not None else (None if state is None else state == "up"),
        speed_bytes_per_second=speed * MEGABIT if speed is not None and speed > 0 else None,  # -1: none
        received_bytes=_number(folder / "statistics/rx_bytes"),
        transmitted_bytes=_number(folder / "statistics/tx_bytes"),
        errors={name: count for name, count in errors.items() if count is not None},
    )


def _text(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None


def _number(path: Path) -> int | None:
    try:
        return int(_text(path) or "")
    except ValueError:
        return None
