"""How much has this device counted in all, though its counters wrapped or began anew?

A counter that falls did one of two things:

- it wrapped: mlx5 keeps `out_of_sequence` and its kin in 32 bits, and so do drivers of old Ethernet cards;
- it began from 0 again: the driver was loaded anew, the interface was made anew, somebody cleared it (perfquery -R).

Prometheus takes any fall for the second; whoever takes differences of the JSON snapshot would see a negative one.
InfiniBand's own PortCounters do neither: 4, 8, 16 or 32 bits wide, they stop at their highest value until they are
cleared (InfiniBand Architecture Specification, volume 1, chapter 16.1).
"""

from __future__ import annotations

from collections.abc import Collection

WRAP = 2**32


class CounterTotals:
    """What each counter of each device said when it was first read, and all that it counted since."""

    def __init__(self) -> None:
        self._seen: dict[str, dict[str, tuple[int, int]]] = {}  # by device and counter: last value, counted before it

    def total(self, device: str, counter: str, value: int) -> int:
        """The total, now that the counter says `value`."""
        counters = self._seen.setdefault(device, {})
        last, before = counters.get(counter, (value, 0))
        if wrapped(last, value):
            before += WRAP
        elif value < last // 2:
            before += last
        elif value < last:
            value = last  # summed up over processors while they count, it can dip
        counters[counter] = value, before
        return before + value

    def keep(self, devices: Collection[str]) -> None:
        """Forget all but these: another device may get the name."""
        for device in self._seen.keys() - devices:
            del self._seen[device]


def wrapped(last: int, value: int) -> bool:
    """Whether a counter fell because it ran over 32 bits: it was near their end, and has not come far since."""
    return value < last < WRAP and value + WRAP - last < WRAP // 4
