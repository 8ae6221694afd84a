"""Aligns one step: the records of all ranks become one AlignedStep, whose columns have the ranks side by side. Pure."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from zmon.job.step_batch import UNKNOWN, Floats, Integers, MeasureArrays, StepBatch, batches
from zmon.schema.aligned_step import AlignedStep
from zmon.schema.step import StepRecord
from zmon.schema.step_columns import step_columns

D = TypeVar("D", np.float64, np.int64)


class Records(NamedTuple):
    """Some records of one step."""

    batch: StepBatch
    rows: Integers  # their places in the batch

    @property
    def ranks(self) -> Integers:
        """Their ranks."""
        return self.batch.ranks[self.rows]


def num_ranks(parts: Sequence[Records]) -> int:
    """Return the number of ranks that have one of these records."""
    return len(np.unique(np.concatenate([part.ranks for part in parts])))


def align(step: int, ranks: Sequence[StepRecord], stands_for: int = 1) -> AlignedStep:
    """Return the aligned step, given the record of every rank, rank 0 first."""
    columns = step_columns({str(rank): (record,) for rank, record in enumerate(ranks)})
    by_uid = {str(rank): rank for rank in range(len(ranks))}
    parts = [Records(batch, np.arange(len(batch.ranks))) for batch in batches([columns], by_uid, len(ranks))]
    return align_records(step, parts, len(ranks), stands_for)


def align_records(step: int, parts: Sequence[Records], world_size: int, stands_for: int) -> AlignedStep:
    """Return the aligned step, given records that include one of each rank.

    If a rank has several records of the step, the last one counts.
    """
    mean = None
    if all(part.batch.has_mean[part.rows].all() for part in parts):
        mean = _side_by_side(step, [(part, part.batch.mean) for part in parts], world_size, stands_for)
    aligned = _side_by_side(step, [(part, part.batch.measures) for part in parts], world_size, stands_for)
    total = np.empty(world_size, np.int64)
    for part in parts:
        total[part.ranks] = part.batch.total_sent_bytes[part.rows]
    return replace(aligned, total_sent_bytes=_whole_numbers(total), mean=mean)


def _side_by_side(
    step: int, parts: Sequence[tuple[Records, MeasureArrays]], world_size: int, stands_for: int
) -> AlignedStep:
    phases = _by_rank([(part, measures.phases) for part, measures in parts], np.zeros(world_size))
    exposed = _by_rank([(part, measures.exposed) for part, measures in parts], np.zeros(world_size))
    none = np.zeros(world_size, np.int64)
    sent = _by_rank([(part, measures.sent_bytes) for part, measures in parts], none)
    received = _by_rank([(part, measures.received_bytes) for part, measures in parts], none)
    numbers = [
        (
            part,
            {
                "samples": measures.samples,
                "lookups": measures.lookups,
                "flops": measures.flops,
                "memory_traffic": measures.memory_traffic,
            },
        )
        for part, measures in parts
    ]
    counted = _by_rank(numbers, none)
    phases = {
        phase: column
        for phase, column in phases.items()
        if any(phase in m.phases and _ran(m.ran_phases.get(phase), part) for part, m in parts)
    }
    ops = [op for op in exposed if any(op in m.exposed and _ran(m.ran_ops.get(op), part) for part, m in parts)]
    own: Floats = sum(phases.values(), np.zeros(world_size))
    waited: Floats = sum((exposed[op] for op in ops), np.zeros(world_size))
    critical = _critical_rank(own, waited)
    return AlignedStep(
        step=step,
        stands_for=stands_for,
        seconds=float(own[critical] + waited[critical]),
        critical_rank=critical,
        self_seconds=array("d", own.tobytes()),
        phases={phase: array("d", column.tobytes()) for phase, column in phases.items()},
        exposed={op: array("d", exposed[op].tobytes()) for op in ops},
        sent_bytes={op: array("q", sent[op].tobytes()) for op in ops},
        received_bytes={op: array("q", received[op].tobytes()) for op in ops},
        samples=_whole_numbers(counted["samples"]),
        lookups=_whole_numbers(counted["lookups"]),
        flops=_sum(counted["flops"]),
        memory_traffic_bytes=_sum(counted["memory_traffic"]),
    )


def _ran(flags: Integers | None, records: Records) -> bool:
    """Return True if a phase or op ran in one of these records. None: it ran in all records of the batch."""
    return flags is None or bool(flags[records.rows].any())


def _by_rank(parts: Sequence[tuple[Records, Mapping[str, NDArray[D]]]], zeros: NDArray[D]) -> dict[str, NDArray[D]]:
    """Return each column with one value per rank; 0 where a rank has no such column."""
    columns: dict[str, NDArray[D]] = {}
    for records, measures in parts:
        ranks, rows = records.ranks, records.rows
        for name, values in measures.items():
            if name not in columns:
                columns[name] = zeros.copy()
            columns[name][ranks] = values[rows]
    return columns


def _critical_rank(own: Floats, waited: Floats) -> int:
    """Return the rank that waited least; of several, the one with the longest self time.

    A rank without any time in the step is no candidate, unless all are.
    """
    timed = (own != 0) | (waited != 0)
    if not timed.any():
        timed[:] = True
    waiting = np.where(timed, waited, np.inf)
    least = np.flatnonzero(waiting == waiting.min())
    return int(least[np.argmax(own[least])])


def _sum(column: Integers) -> float | None:
    """Return the sum over all ranks; None if one of them is unknown."""
    return None if (column == UNKNOWN).any() else float(column.sum(dtype=np.float64))


def _whole_numbers(column: Integers) -> Sequence[int | None]:
    """Return an array, or a tuple if a number is unknown."""
    if (column == UNKNOWN).any():
        return tuple(None if value == UNKNOWN else value for value in column.tolist())
    return array("q", column.tobytes())
