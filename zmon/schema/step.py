"""The measures of one rank in one step, or in all steps so far.

Frozen data only. Times are seconds and amounts are bytes. `None` means unknown and is never written as 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from zmon.schema.limits import Seconds, Whole


@dataclass(frozen=True, slots=True)
class OpTotals:
    """The count, times and bytes of one kind of collective; the bytes include a rank's own chunk."""

    count: Whole = 0
    exposed_seconds: Seconds = 0.0
    inflight_seconds: Seconds = 0.0
    sent_bytes: Whole = 0
    received_bytes: Whole = 0


@dataclass(frozen=True, slots=True)
class Measures:
    """The measures of one step, or of all steps so far. Ops and phases that never ran are not listed."""

    phases: dict[str, Seconds] = field(default_factory=dict)
    ops: dict[str, OpTotals] = field(default_factory=dict)
    samples: Whole | None = None
    lookups: Whole | None = None
    network_sent_bytes: Whole | None = None
    network_received_bytes: Whole | None = None
    nic_sent_bytes: Whole | None = None  # on the job's interface: the mean of the steps since the last reading
    nic_received_bytes: Whole | None = None
    flops: Whole | None = None  # floating-point operations
    memory_traffic_bytes: Whole | None = None  # read from and written to device memory

    @property
    def self_seconds(self) -> float:
        """The time that the rank spent in its own phases."""
        return sum(self.phases.values())

    @property
    def exposed_seconds(self) -> float:
        """The time in collectives that nothing hid."""
        return sum(op.exposed_seconds for op in self.ops.values())


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One optimizer update of one rank. `start` is seconds on the host's monotonic clock."""

    step: Whole
    start: Seconds
    duration: Seconds
    measures: Measures
    device_memory_peak_bytes: Whole | None = None
    mean: Measures | None = None  # mean step since the record before; None: it stands for itself only
    total_sent_bytes: Whole | None = None  # sent by the rank so far, up to the end of the step, in `SAME_SIZE_OPS`
