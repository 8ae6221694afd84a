"""One step of the whole job with all ranks side by side, and the medians of a span of steps.

Frozen data and values derived from it. Seconds and bytes; a column has one value per rank, 0 … world_size − 1. A column
is an array where it can be, because a hub keeps millions of these values. In an array a value takes 8 bytes. As an
object with a reference it takes 40 bytes, and it fragments the memory that the objects of older reports leave behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Any

from zmon.schema.measures import columns_of
from zmon.schema.steps import SAME_SIZE_SENT

Numbers = Sequence[float]
Amounts = Sequence[int | None]  # None: unknown


@dataclass(frozen=True)
class AlignedStep:
    """One step of all ranks: a view of their columns.

    A phase or op that ran on some rank has a column, with 0 for the ranks on which it did not run.
    """

    step: int
    stands_for: int  # number of steps since the previous aligned step; more than 1 if short steps are sampled
    seconds: float  # duration, as the critical rank measured it
    # The rank that waited least. A rank that begins its step late, because it did other work first, is critical too.
    critical_rank: int
    self_seconds: Numbers
    columns: dict[str, Sequence[float | None]]  # by name, as in `zmon.schema.steps`; times are seconds
    mean: AlignedStep | None = None  # the mean of the steps it stands for, which has less noise; None: itself

    @cached_property
    def phases(self) -> dict[str, Numbers]:
        """The self time of each rank by phase."""
        return self._by_word("phase")

    @cached_property
    def exposed(self) -> dict[str, Numbers]:
        """The exposed time of each rank by op."""
        return self._by_word("exposed")

    @cached_property
    def sent_bytes(self) -> dict[str, Sequence[int]]:
        """The bytes that each rank sent by op."""
        return self._by_word("sent")

    @cached_property
    def received_bytes(self) -> dict[str, Sequence[int]]:
        """The bytes that each rank received by op."""
        return self._by_word("received")

    @property
    def samples(self) -> Amounts:
        return self.amounts("samples")

    @property
    def lookups(self) -> Amounts:
        return self.amounts("lookups")

    @property
    def flops(self) -> float | None:
        """The floating-point operations of all ranks; None: those of a rank are unknown."""
        return self._sum("flops")

    @property
    def memory_traffic_bytes(self) -> float | None:
        """The memory traffic of all ranks; None: that of a rank is unknown."""
        return self._sum("memory_traffic")

    @property
    def total_sent_bytes(self) -> Amounts:
        """The bytes that each rank has sent so far in `SAME_SIZE_OPS`."""
        return self.amounts(SAME_SIZE_SENT)

    def amounts(self, column: str) -> Amounts:
        """Return a column of whole numbers that may be unknown."""
        known: Any = self.columns.get(column)
        return (None,) * len(self.self_seconds) if known is None else known

    def _sum(self, column: str) -> float | None:
        """Return the sum of a column; None if one of its values is unknown."""
        known: Any = self.columns.get(column)
        return None if known is None or None in known else float(sum(known))

    def _by_word(self, measure: str) -> dict[str, Any]:
        """Return the columns of a measure by word, such as the phase or the op."""
        return {word: self.columns[name] for word, name in columns_of(measure, self.columns).items()}

    @property
    def exposed_seconds(self) -> float:
        """The exposed time of the critical rank in all ops together."""
        return self.exposed_of(self.critical_rank)

    def exposed_of(self, rank: int) -> float:
        """Return the exposed time of a rank in all ops together."""
        return sum(seconds[rank] for seconds in self.exposed.values())

    def seconds_of(self, rank: int) -> float:
        """Return the duration of the step on a rank; it is shorter on a rank that began the step late."""
        return self.self_seconds[rank] + self.exposed_of(rank)


@dataclass(frozen=True, slots=True)
class StepWindow:
    """A span of some seconds of a job, as the medians over its steps."""

    num_steps: int  # number of steps, including those that were not sampled
    seconds: float
    self_seconds: float  # self time of the median rank
    data_seconds: float  # data phase of the median rank
    exposed_seconds: float  # exposed time of the critical rank
    samples: int | None  # samples of all ranks in a step; windows compare only if it is about equal
    lost_ratio: float | None = None  # share of its time that ranks waited for slower ones; None: unknown
    tokens: int | None = None  # of all ranks in a step, as the job declares them; None: unknown
    flops: float | None = None  # floating-point operations of all ranks in a step; None: unknown


Baseline = StepWindow  # a window in which the job was healthy


def sent_bytes_by_op(steps: Sequence[AlignedStep]) -> dict[str, float]:
    """Return the bytes that a rank sends in a step, by op: the mean over ranks and steps."""
    ops = sorted({op for step in steps for op in step.sent_bytes})
    return {op: fmean(fmean(step.sent_bytes.get(op, (0,))) for step in steps) for op in ops}
