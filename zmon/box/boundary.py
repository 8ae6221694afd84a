"""The boundaries of a box, and the step records between them.

A boundary holds all totals so far. A step is the difference between its own boundary and the previous one. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from zmon.box import layout
from zmon.schema.names import ACTIVITIES, OPS, PHASES, SAME_SIZE_OPS, word
from zmon.schema.rank import Memory
from zmon.schema.step import Measures, OpTotals, StepRecord

_NS = 1e-9
_SAME_SIZE = tuple(map(OPS.index, SAME_SIZE_OPS))


@dataclass(frozen=True, slots=True)
class Totals:
    """The totals of a rank, from its start to its last boundary."""

    steps: int
    step_seconds: float
    last_step_time: float | None
    last_checkpoint_time: float | None
    memory: Memory | None
    overhead_seconds: float
    dropped_records: int
    measures: Measures
    between_seconds: dict[str, float]  # time that belongs to no step, by activity
    time: float  # seconds on the host's monotonic clock


class Boundary(NamedTuple):
    """All totals up to one moment, as in the layout.

    Times are nanoseconds, sizes are bytes, and -1 means unknown.
    """

    number: int
    kind: int
    step: int
    time: int
    steps: int
    step_ns: int
    last_step: int
    last_checkpoint: int
    memory: tuple[int, ...]
    overhead: int
    dropped: int
    network: tuple[int, ...]
    step_amounts: tuple[int, ...]
    amounts: tuple[int, ...]
    between: tuple[int, ...]
    reported: Mapping[int, float]  # gauges reported since the previous boundary, by index in the report cell
    times: tuple[int, ...]
    counts: tuple[int, ...]

    @classmethod
    def from_numbers(cls, numbers: tuple[int, ...], edges: tuple[int, ...]) -> Boundary:
        """Build the boundary from its numbers in the ring; `edges` are those of the layout of its box."""
        parts = (numbers[start:end] for start, end in pairwise((0, *edges)))
        head, step_amounts, amounts, between, (bits,), values, times, counts = parts
        reported = {index: value for index, value in enumerate(values) if bits >> index & 1} if bits else {}
        number, kind, step, time, steps, step_ns, last_step, last_checkpoint = head[:8]
        return cls(
            number, kind, step, time, steps, step_ns, last_step, last_checkpoint,
            head[8:11], head[11], head[12], head[13:15], step_amounts, amounts, between, reported, times, counts,
        )  # fmt: skip


def totals(last: Boundary) -> Totals:
    """Convert the totals of the last boundary to seconds and named fields."""
    return Totals(
        last.steps,
        last.step_ns * _NS,
        None if last.last_step < 0 else last.last_step * _NS,
        None if last.last_checkpoint < 0 else last.last_checkpoint * _NS,
        None if last.memory[0] < 0 else Memory(*last.memory),
        last.overhead * _NS,
        last.dropped,
        _measures(last.times, last.counts, last.amounts, last.network),
        {word(ACTIVITIES, number, "activity"): ns * _NS for number, ns in enumerate(last.between) if ns},
        last.time * _NS,
    )


def step_record(previous: Boundary, end: Boundary) -> StepRecord:
    """Return the record of the step that ended at `end`, given the boundary before it."""
    duration = end.step_ns - previous.step_ns
    return StepRecord(
        end.step,
        (end.time - duration) * _NS,
        duration * _NS,
        _measures(
            [b - a for a, b in zip(previous.times, end.times, strict=True)],
            [b - a for a, b in zip(previous.counts, end.counts, strict=True)],
            end.step_amounts,
            [b - max(a, 0) if b >= 0 else b for a, b in zip(previous.network, end.network, strict=True)],
        ),
        _known_or_none(end.memory[2]),
        total_sent_bytes=sum(end.counts[layout.SENT + number] for number in _SAME_SIZE),
    )


def mean_measures(first: Boundary, end: Boundary) -> Measures:
    """Return the mean measures of the steps that ended after `first` and up to `end`."""
    num_steps = end.steps - first.steps

    def means(firsts: Sequence[int], ends: Sequence[int]) -> list[int]:
        pairs = zip(firsts, ends, strict=True)
        return [
            layout.UNKNOWN if min(pair) < 0 else round((pair[1] - pair[0] & layout.MAX_AMOUNT) / num_steps)
            for pair in pairs
        ]

    times, counts = means(first.times, end.times), means(first.counts, end.counts)
    return _measures(times, counts, means(first.amounts, end.amounts), means(first.network, end.network))


def _known_or_none(value: int) -> int | None:
    return None if value < 0 else value


def _measures(times: Sequence[int], counts: Sequence[int], amounts: Sequence[int], network: Sequence[int]) -> Measures:
    ops = {
        op: OpTotals(
            counts[layout.COUNT + n],
            times[layout.EXPOSED + n] * _NS,
            times[layout.INFLIGHT + n] * _NS,
            counts[layout.SENT + n],
            counts[layout.RECEIVED + n],
        )
        for n, op in enumerate(OPS)
        if counts[layout.COUNT + n] or times[layout.EXPOSED + n]
    }
    known = [*map(_known_or_none, amounts), None, None]  # layout 4 has neither operations nor memory traffic
    samples, lookups, nic_sent, nic_received, flops, memory_traffic = known[: layout.NUM_AMOUNTS]
    network_sent, network_received = map(_known_or_none, network)
    return Measures(
        {phase: times[layout.PHASE + n] * _NS for n, phase in enumerate(PHASES) if times[layout.PHASE + n]},
        ops,
        samples,
        lookups,
        network_sent,
        network_received,
        nic_sent,
        nic_received,
        flops,
        memory_traffic,
    )
