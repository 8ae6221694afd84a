"""Turn device counters that wrap or restart into totals that only grow.

A counter falls for one of two reasons:

- It wrapped. mlx5 keeps counters such as `out_of_sequence` in 32 bits, and so do drivers of old Ethernet cards.
- It restarted from 0: the driver was reloaded, the interface was created anew, or a person cleared it (perfquery -R).

Prometheus takes any fall for a restart, and differences of the JSON snapshot would be negative. InfiniBand's own
PortCounters do not wrap. They are 4, 8, 16 or 32 bits wide and stop at their highest value until they are cleared
(InfiniBand Architecture Specification, volume 1, chapter 16.1).
"""

from __future__ import annotations

from collections.abc import Collection

WRAP = 2**32


class CounterTotals:
    """The total of each counter of each device: its first value plus everything that it counted since."""

    def __init__(self) -> None:
        self._counters: dict[str, dict[str, tuple[int, int]]] = {}  # last value and base, by device and counter

    def total(self, device: str, counter: str, value: int) -> int:
        """Return the total, given the value of the counter now."""
        counters = self._counters.setdefault(device, {})
        last, base = counters.get(counter, (value, 0))  # the total is base + value
        if wrapped(last, value):
            base += WRAP
        elif value < last // 2:
            base += last
        elif value < last:
            value = last  # a small dip: the kernel sums over processors while they count
        counters[counter] = value, base
        return base + value

    def keep(self, devices: Collection[str]) -> None:
        """Forget all devices but these, because another device may get the same name later."""
        for device in self._counters.keys() - devices:
            del self._counters[device]


def wrapped(last: int, value: int) -> bool:
    """Return True if a counter overflowed 32 bits and grew by less than a quarter of that range since the last read."""
    return value < last < WRAP and value + WRAP - last < WRAP // 4
