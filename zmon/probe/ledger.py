"""The totals of a rank, written into its box at each boundary.

Totals only grow, and a step is the difference between two boundaries. A boundary therefore costs one packing, and
nothing is added up twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from zmon.box import BoxWriter, layout
from zmon.box.identity import field
from zmon.box.versions import MAX_ACTIVITIES
from zmon.probe.device_time import DeviceTime
from zmon.probe.interface import JobInterface
from zmon.probe.samples import SampleCounter
from zmon.schema.names import OPS

_MEMORY_INTERVAL_NS = 1_000_000_000  # the allocator's statistics are a slow call
_UNKNOWN = [layout.UNKNOWN] * layout.NUM_AMOUNTS
_NO_VALUES = (0.0,) * layout.MAX_REPORT_KEYS
_SEND, _RECV = OPS.index("send"), OPS.index("recv")
_MAX_AMOUNT = (1 << 62) - 1  # amounts stop at this limit; a boundary with a larger one would be lost, and all after it

MemoryReader = Callable[[], tuple[int, int, int] | None]


class Ledger:
    """The totals of one rank; its timeline adds to `times` and `counts`, which are in the order of the layout."""

    def __init__(self, box: BoxWriter, interface: JobInterface | None = None, network_known: bool = False) -> None:
        self.memory_reader: MemoryReader | None = None
        self.device: DeviceTime | None = None  # if set, the times come from the device, some steps later
        self.times = [0] * layout.NUM_TIMES
        self.counts = [0] * layout.NUM_COUNTS
        self.samples = SampleCounter()
        self.overhead_ns = self.dropped = 0
        self.boundaries = 0
        self._num_single = 0  # sends to and receives from single ranks until the last step
        self._box, self._interface = box, interface
        self._times_at_boundary = self.times.copy()
        self._step_amounts, self._amounts = _UNKNOWN.copy(), _UNKNOWN.copy()
        # If all ranks share this host, nothing goes to other hosts.
        self._network = (0, 0) if network_known else (layout.UNKNOWN,) * 2
        self._steps = self._step_ns = 0
        self._last_step = self._last_checkpoint = layout.UNKNOWN
        self._between = [0] * MAX_ACTIVITIES
        self._memory = (layout.UNKNOWN,) * 3
        self._memory_read_at = 0
        self._report: dict[str, float] = {}
        self._reported_bits, self._reported_values = 0, _NO_VALUES  # gauges reported since the last boundary
        box.report(*[b"", 0.0] * layout.MAX_REPORT_KEYS)

    def step(self, number: int, now: int, duration: int) -> None:
        """Write the boundary at the end of a step."""
        amounts = self._step_amounts
        num_single = self.counts[_SEND] + self.counts[_RECV]
        samples = self.samples.end_step(is_stage=num_single > self._num_single)
        self._num_single = num_single
        if samples is not None:
            amounts[layout.SAMPLES] = min(samples, _MAX_AMOUNT)
        if self._interface is not None and (moved := self._interface.since_last()) is not None:
            amounts[layout.NIC_SENT], amounts[layout.NIC_RECEIVED] = moved
        if self.memory_reader is not None and now - self._memory_read_at > _MEMORY_INTERVAL_NS:
            self._memory = self.memory_reader() or self._memory
            self._memory_read_at = now
        known = amounts != _UNKNOWN
        if known:
            totals = self._amounts
            for index, amount in enumerate(amounts):
                if amount >= 0:
                    totals[index] = _sum(totals[index], amount)
        self._last_step = time.time_ns()
        self._close(layout.STEP, number, now, duration)
        if known:
            amounts[:] = _UNKNOWN

    def turn(self, number: int, now: int, previous_activity: int, elapsed: int, leaving: bool = False) -> None:
        """Write the boundary at a change of activity; times since the last boundary belong to no step, counts stay.

        `elapsed` is the time since the last boundary in nanoseconds, which the rank spent in `previous_activity`.
        """
        self._between[previous_activity] += elapsed
        self.times[:] = self._times_at_boundary
        self._step_amounts[:] = _UNKNOWN
        self.samples.turn()
        if self._interface is not None:
            self._interface.since_last()
        self._close(layout.TURN, number, now, 0, leaving)

    def saved(self) -> None:
        """Record that a checkpoint is complete."""
        self._last_checkpoint = time.time_ns()

    def work(self, samples: int | None, lookups: int | None) -> None:
        """Add to the work of this rank in the current step."""
        amounts = self._step_amounts
        if samples is not None:
            amounts[layout.SAMPLES] = _sum(amounts[layout.SAMPLES], count(samples))
            self.samples.declare()
        if lookups is not None:
            amounts[layout.LOOKUPS] = _sum(amounts[layout.LOOKUPS], count(lookups))

    def report(self, values: dict[str, float]) -> None:
        """Set gauges; the first four names are stored, others are dropped and counted."""
        for key, value in values.items():
            if key in self._report or len(self._report) < layout.MAX_REPORT_KEYS:
                self._report[key] = float(value)
            else:
                self.dropped += 1
        flat: list[bytes | float] = []
        for index, (key, number) in enumerate(self._report.items()):
            flat += (field(key, 32), number)
            self._reported_bits |= (key in values) << index
        unused = layout.MAX_REPORT_KEYS - len(self._report)
        self._box.report(*flat, *[b"", 0.0] * unused)
        self._reported_values = (*self._report.values(), *[0.0] * unused)

    def _close(self, kind: int, number: int, now: int, duration: int, leaving: bool = False) -> None:
        head = kind, number, now
        other_fields = (
            self._last_step, self._last_checkpoint, *self._memory, self.overhead_ns, self.dropped, *self._network,
            *self._step_amounts, *self._amounts, *self._between, self._reported_bits, *self._reported_values,
        )  # fmt: skip
        self._reported_bits, self._reported_values = 0, _NO_VALUES
        if self.device is None:
            self._write(head, duration, other_fields, self.counts)
        else:
            self.device.close(head, other_fields, self.counts.copy())
            for timed in self.device.finished(leaving):
                for index, ns in timed.times:
                    self.times[index] += ns
                self.dropped += timed.dropped
                self._write(timed.head, timed.duration, timed.other_fields, timed.counts)

    def _write(self, head: tuple[int, ...], duration: int, other_fields: tuple[float, ...], counts: list[int]) -> None:
        if head[0] == layout.STEP:
            self._steps += 1
            self._step_ns += duration
        self.boundaries = self._box.boundary((*head, self._steps, self._step_ns, *other_fields), self.times, counts)
        self._times_at_boundary[:] = self.times


def _sum(total: int, amount: int) -> int:
    return min(total + amount if total > 0 else amount, _MAX_AMOUNT)


def count(number: int) -> int:
    """Return the count as an integer that fits into the box; raises ValueError if it is not a count."""
    integer = int(number)
    if not 0 <= integer <= _MAX_AMOUNT:
        raise ValueError(f"{number!r} is not a count")
    return integer
