"""The totals of a rank, written into its box at each boundary.

Totals only grow, and a step is the difference between two boundaries. The totals are kept as the image of the next
boundary, in the layout of the box. A boundary therefore costs one copy, and nothing is added up twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from zmon.box import BoxWriter, layout
from zmon.box.identity import field
from zmon.probe.device_time import DeviceTime
from zmon.probe.interface import JobInterface
from zmon.probe.losses import REPORT, Losses
from zmon.probe.samples import SampleCounter
from zmon.schema.measures import UNKNOWN
from zmon.schema.names import LOSS, OPS

MEMORY_INTERVAL_NS = 1_000_000_000  # shortest time between two readings: the allocator's statistics are a slow call
INTERFACE_INTERVAL_NS = 100_000_000  # shortest time between two readings; both are made at the ends of steps
_SEND, _RECV = OPS.index("send"), OPS.index("recv")
_MAX_AMOUNT = layout.MAX_AMOUNT
_UNKNOWN = memoryview(UNKNOWN.to_bytes(8, "little", signed=True) * layout.NUM_AMOUNTS).cast("q")
_NO_VALUES = memoryview(bytes(8 * layout.MAX_REPORT_KEYS)).cast("d")

MemoryReader = Callable[[], tuple[int, int, int] | None]  # bytes: allocated, reserved, allocated at the peak


class Ledger:
    """The totals of one rank; its timeline adds to `times` and `counts`, which are in the order of the layout.

    `unix_clock` returns nanoseconds since the epoch.
    """

    make_samples: type[SampleCounter] = SampleCounter

    def __init__(
        self,
        box: BoxWriter,
        interface: JobInterface | None = None,
        unix_clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._box, self._interface = box, interface
        self._unix_clock = unix_clock
        self.memory_reader: MemoryReader | None = None
        self.device: DeviceTime | None = None  # if set, the times come from the device, some steps later
        self.samples = self.make_samples()
        self.losses = Losses(box.losses)
        self._image = memoryview(bytearray(layout.BOUNDARY.size))
        self._numbers = self._image.cast("q")
        # The gauges that were reported since the last boundary.
        self._values = self._image[8 * layout.VALUES : 8 * layout.FIRST].cast("d")
        self.times, self.counts = self._numbers[layout.TIMES], self._numbers[layout.COUNTS]
        self._step_amounts, self._amounts = self._numbers[layout.STEP_AMOUNTS], self._numbers[layout.AMOUNTS]
        self._between = self._numbers[layout.BETWEEN]
        self._times_at_boundary = memoryview(bytearray(8 * layout.NUM_TIMES)).cast("q")
        self._num_single = 0  # sends to and receives from single ranks until the last step
        self._memory_read_at = self._interface_read_at = 0
        self._unread_steps = 0  # steps since the last reading of the interface
        self._report: dict[str, float] = {}
        self.failed_steps = 0  # steps that an exception left
        self.declared_dtype: object = None  # the dtype of the operations, as the job last declared it
        # The operations that were counted in one step, and its samples (0: unknown); they stand for all later steps.
        self.counted_flops = self.counted_samples = 0
        memory = range(layout.MEMORY, layout.MEMORY + layout.NUM_MEMORY)
        for index in (layout.LAST_STEP, layout.LAST_CHECKPOINT, *memory):
            self._numbers[index] = UNKNOWN
        self._step_amounts[:] = self._amounts[:] = _UNKNOWN
        box.report(*[b"", 0.0] * layout.MAX_REPORT_KEYS)

    @property
    def boundaries(self) -> int:
        """The number of boundaries written so far."""
        return self._numbers[layout.NUMBER]

    @property
    def overhead_ns(self) -> int:
        """The overhead of the probe until the last boundary."""
        return self._numbers[layout.OVERHEAD]

    @property
    def dropped(self) -> int:
        """The number of records that are lost."""
        return self._numbers[layout.DROPPED]

    @dropped.setter
    def dropped(self, number: int) -> None:
        self._numbers[layout.DROPPED] = number

    def step(self, number: int, now: int, duration: int, overhead_ns: int) -> None:
        """Write the boundary at the end of a step."""
        amounts = self._step_amounts
        num_single = self.counts[_SEND] + self.counts[_RECV]
        samples = self.samples.end_step(num_single > self._num_single)
        self._num_single = num_single
        if samples is not None:
            amounts[layout.SAMPLES] = min(samples, _MAX_AMOUNT)
        if self.counted_flops and amounts[layout.FLOPS] < 0:
            amounts[layout.FLOPS] = self._inferred_flops(amounts[layout.SAMPLES])
        if self.memory_reader is not None and now - self._memory_read_at > MEMORY_INTERVAL_NS:
            self._read_memory(now)
        known = amounts != _UNKNOWN
        if known:
            totals = self._amounts
            for index, amount in enumerate(amounts):
                if amount >= 0:
                    totals[index] = max(totals[index], 0) + amount & _MAX_AMOUNT  # counts on from 0 beyond it
        if self._interface is not None:
            self._unread_steps += 1
            if now - self._interface_read_at >= INTERFACE_INTERVAL_NS:
                self._read_interface(now)
                known = True
        self._numbers[layout.LAST_STEP] = self._unix_clock()
        self._close(layout.STEP, number, now, duration, overhead_ns)
        if known:
            amounts[:] = _UNKNOWN

    def end_activity(
        self, number: int, now: int, activity: int, elapsed: int, overhead_ns: int, leaving: bool = False
    ) -> None:
        """Write the boundary at the end of an activity. Times since the last boundary belong to no step; counts stay.

        `elapsed` is the time since the last boundary in nanoseconds, which the rank spent in `activity`.
        """
        self._between[activity] += elapsed
        self.times[:] = self._times_at_boundary
        if self._interface is not None:
            self._read_interface(now)  # with what it carried since the end of the last step
        self._step_amounts[:] = _UNKNOWN
        self.samples.discard_step()
        self._close(layout.TURN, number, now, 0, overhead_ns, leaving)

    def note_checkpoint(self) -> None:
        """Record that a checkpoint is complete, from the next boundary on; may be called in any thread."""
        self._numbers[layout.LAST_CHECKPOINT] = self._unix_clock()

    def work(self, *amounts: float | None) -> None:
        """Add to the amounts of the current step, in the order of the table. Raises ValueError for any other number."""
        step_amounts = self._step_amounts
        for index, amount in enumerate(amounts):
            if amount is not None:
                step_amounts[index] = _limited_sum(step_amounts[index], as_count(amount))
                if index == layout.SAMPLES:
                    self.samples.declare()

    def expect_flops(self, flops: int) -> None:
        """Let later steps have as many operations as the step that ends now, or as many for each of its samples."""
        self.counted_flops, self.counted_samples = min(flops, _MAX_AMOUNT), max(self._step_amounts[layout.SAMPLES], 0)

    def read_memory_at_next_step(self) -> None:
        """Call the reader of the device's memory at the end of the next step, however short that is."""
        self._memory_read_at = 0

    def _inferred_flops(self, samples: int) -> int:
        """Infer the operations of a step with this number of samples from the step that was counted."""
        if not self.counted_samples or samples < 0:
            return self.counted_flops
        return min(self.counted_flops * samples // self.counted_samples, _MAX_AMOUNT)

    def report(self, values: dict[str, float], step: int) -> None:
        """Set gauges in a step; the first four names are stored, others are dropped and counted."""
        for key, value in values.items():
            if key in self._report or len(self._report) < layout.MAX_REPORT_KEYS:
                self._report[key] = float(value)
                if LOSS.search(key):
                    self.losses.note(REPORT, step, self._report[key])
            else:
                self.dropped += 1
        flat: list[bytes | float] = []
        for index, (key, number) in enumerate(self._report.items()):
            flat += (field(key, layout.REPORT_KEY_BYTES), number)
            self._numbers[layout.REPORTED] |= (key in values) << index
            self._values[index] = number
        self._box.report(*flat, *[b"", 0.0] * (layout.MAX_REPORT_KEYS - len(self._report)))

    def _read_memory(self, now: int) -> None:
        self._memory_read_at = now
        memory = self.memory_reader() if self.memory_reader is not None else None
        for index, num_bytes in enumerate(memory or (), layout.MEMORY):
            self._numbers[index] = num_bytes

    def _read_interface(self, now: int) -> None:
        """Count the bytes since the last reading. This step gets the mean of the steps since then."""
        num_steps, self._unread_steps, self._interface_read_at = self._unread_steps, 0, now
        traffic = self._interface.since_last() if self._interface is not None else None
        if traffic is None or not num_steps:  # without a step, the bytes belong to none
            return
        for index, num_bytes in zip((layout.NIC_SENT, layout.NIC_RECEIVED), traffic, strict=True):
            self._amounts[index] = _limited_sum(self._amounts[index], num_bytes)
            self._step_amounts[index] = num_bytes // num_steps

    def _close(self, kind: int, number: int, now: int, duration: int, overhead_ns: int, leaving: bool = False) -> None:
        """Write the boundary that ends now; with a device, queue it and write those that the device has passed."""
        numbers = self._numbers
        numbers[layout.KIND], numbers[layout.STEP_NUMBER], numbers[layout.TIME] = kind, number, now
        numbers[layout.OVERHEAD] = overhead_ns
        if self.device is None:
            self._write(self._image, kind, duration)
        else:
            self.device.close(kind, self._image.tobytes())
            for timed in self.device.timed_boundaries(leaving):
                for index, ns in timed.times:
                    self.times[index] += ns
                self.dropped += timed.dropped
                self._write(memoryview(bytearray(timed.image)), timed.kind, timed.duration)
        self._numbers[layout.REPORTED] = 0
        self._values[:] = _NO_VALUES

    def _write(self, image: memoryview, kind: int, duration: int) -> None:
        """Write an image as the next boundary, with the times so far."""
        totals = self._numbers
        totals[layout.NUMBER] += 1
        if kind == layout.STEP:
            totals[layout.STEPS] += 1
            totals[layout.STEP_NS] += duration
        if image is not self._image:
            numbers = image.cast("q")
            for part in (slice(layout.NUMBER, layout.KIND), slice(layout.STEPS, layout.LAST_STEP), layout.TIMES):
                numbers[part] = totals[part]
        self._box.boundary(image)
        self._times_at_boundary[:] = self.times


def _limited_sum(total: int, amount: int) -> int:
    """Return the sum, which is limited to the largest amount; an unknown total counts as 0."""
    return min(total + amount if total > 0 else amount, _MAX_AMOUNT)


def as_count(number: float) -> int:
    """Return the count as an integer that fits into the box; raises ValueError if it is not a count."""
    integer = int(number)
    if not 0 <= integer <= _MAX_AMOUNT:
        raise ValueError(f"{number!r} is not a count")
    return integer
