"""The one shape of steps: columns over the steps of some ranks of one job.

The agent makes it from the boundaries in boxes. A hub and the offline commands read its buffers. In memory, on the wire
and on disk it is the same. Standard library only.

A column has one whole number per row: a count, bytes or nanoseconds, -1 if unknown. It is stored as the lowest of these
numbers and their differences from it, in the smallest unsigned integers that hold them. If all numbers are equal, there
are no differences. A column is absent if a phase or op did not run, or if an amount is unknown: see `absent`.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import accumulate, groupby

from zmon.format import plain
from zmon.schema.measures import UNKNOWN, columns_of, measure_of, value

STEP, START, DURATION = "step", "start", "duration"  # number, nanoseconds of some clock, nanoseconds
SAME_SIZE_SENT = "same_size_sent"  # bytes sent by the rank so far, up to the end of the step, in `SAME_SIZE_OPS`
# In a sample of steps: columns with the mean of the steps since the row before, and the number of these steps. A row
# without such a mean has the number 0, and its own values in the columns of the mean.
MEAN, MEAN_STEPS = "mean_", "mean_steps"

# Types of the module array by their size. The size of the differences follows from their number.
_CODES = {1: "B", 2: "H", 4: "I", 8: "Q"}
# What a hub makes of one report: an agent reads no more rows, and a hub asks for about eight.
MAX_ROWS_OF_RANK = 1024
MAX_COLUMNS = 256  # a box has about a hundred with means
MAX_VALUES = 1 << 22  # rows × columns, 32 MiB; 512 ranks with sixteen rows of all phases and ops have a third
MAX_NUMBER = 1 << 62  # as `zmon.schema.limits.Whole`


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of some ranks: those of the first rank, oldest first, then those of the second, and so on."""

    run_uids: tuple[str, ...] = ()
    counts: tuple[int, ...] = ()  # number of rows of each rank
    # Column → its lowest number, and the differences of all rows from it, little-endian; no bytes: all have the lowest.
    columns: dict[str, tuple[int, bytes]] = field(default_factory=dict)

    @property
    def num_rows(self) -> int:
        """The number of rows of all ranks together."""
        return sum(self.counts)

    @classmethod
    def from_rows(cls, names: Sequence[str], rows: Mapping[str, Sequence[Sequence[int]]]) -> Steps:
        """Return the steps of these rows by run uid; a row has a number for each name of a column."""
        numbers = zip(*(row for rank_rows in rows.values() for row in rank_rows), strict=True)
        counts = tuple(map(len, rows.values()))
        columns = dict(zip(names, numbers, strict=True)) if any(counts) else {}
        return cls.from_columns(tuple(rows), counts, columns)

    @classmethod
    def from_columns(
        cls, run_uids: tuple[str, ...], counts: tuple[int, ...], columns: Mapping[str, Sequence[int]]
    ) -> Steps:
        """Return the steps of these columns, each with a number for each row."""
        packed: dict[str, tuple[int, bytes]] = {}
        for name, numbers in columns.items():
            low, high = min(numbers), max(numbers)
            if low < -MAX_NUMBER or high >= MAX_NUMBER:  # a job can write anything into its box
                numbers = [_possible(name, number) for number in numbers]
                low, high = min(numbers), max(numbers)
            if high > low:
                code = next(code for size, code in _CODES.items() if high - low < 1 << 8 * size)
                differences = _little_endian(array(code, [number - low for number in numbers]))
                packed[name] = low, differences.tobytes()
            elif low != absent(name) or name == STEP:
                packed[name] = low, b""
        return cls(run_uids, counts, packed)

    @classmethod
    def join(cls, parts: Iterable[Steps]) -> Steps:
        """Return the steps of all parts. Parts of one rank follow each other, the oldest first."""
        parts = [part for part in parts if part.num_rows]
        pairs = [pair for part in parts for pair in zip(part.run_uids, part.counts, strict=True)]
        ranks = {uid: sum(count for _, count in group) for uid, group in groupby(pairs, key=lambda pair: pair[0])}
        names = dict.fromkeys(name for part in parts for name in part.columns)
        columns = {name: [number for part in parts for number in part.column(name)] for name in names}
        return cls.from_columns(tuple(ranks), tuple(ranks.values()), columns)

    def select(self, rows: Sequence[int]) -> Steps:
        """Return these rows, given by their numbers in ascending order. A rank without a row stays, without rows."""
        ends = [*accumulate(self.counts)]
        counts = [0] * len(ends)
        rank = 0
        for row in rows:
            while row >= ends[rank]:
                rank += 1
            counts[rank] += 1
        columns = ((name, self.column(name)) for name in self.columns if rows)
        chosen = {name: [column[row] for row in rows] for name, column in columns}
        return Steps.from_columns(self.run_uids, tuple(counts), chosen)

    def of_rank(self, run_uid: str) -> Steps:
        """Return the rows of one rank alone; no rows if it has none here."""
        if run_uid not in self.run_uids:
            return Steps()
        place = self.run_uids.index(run_uid)
        start = sum(self.counts[:place])
        chosen = self.select(range(start, start + self.counts[place]))
        return replace(chosen, run_uids=(run_uid,), counts=(self.counts[place],))

    def column(self, name: str) -> Sequence[int]:
        """Return the numbers of a column, in which nanoseconds are nanoseconds."""
        low, data = self.columns.get(name, (absent(name), b""))
        if not data:
            return array("q", (low,)) * self.num_rows
        differences = _little_endian(array(_CODES[len(data) // self.num_rows], data))
        return array("q", [low + difference for difference in differences])

    def values(self, name: str) -> list[float | None]:
        """Return a column in seconds, bytes or counts (None: unknown); a column of no measure has its plain numbers."""
        meaning = measure_of(name.removeprefix(MEAN))
        return [number if meaning is None else value(meaning.measure, number) for number in self.column(name)]

    def sums(self, measure: str) -> list[int]:
        """Return for each row the sum of a measure over its words, such as the self time over all phases."""
        columns = [self.column(name) for name in self.columns_of(measure).values()]
        return [sum(numbers) for numbers in zip(*columns, strict=True)] if columns else [0] * self.num_rows

    def columns_of(self, measure: str) -> dict[str, str]:
        """Return the columns of a measure that are present, by their words."""
        return columns_of(measure, self.columns)


class RankSteps:
    """The steps of one rank while they are read: in any order, and the last row of a step counts."""

    def __init__(self) -> None:
        self._rows: dict[int, int] = {}  # step → its row
        self._columns: dict[str, array[int]] = {}

    def add(self, step: int, numbers: Mapping[str, int]) -> None:
        """Add a step with its numbers by column, as in a box."""
        row = self._rows.setdefault(step, len(self._rows))
        for name in numbers.keys() - self._columns.keys():
            self._columns[name] = array("q", (absent(name),)) * row
        for name, column in self._columns.items():
            number = _possible(name, numbers.get(name, absent(name)))
            if row < len(column):
                column[row] = number
            else:
                column.append(number)

    def steps(self, run_uid: str) -> Steps:
        """Return the steps so far, in order."""
        in_order = sorted(self._rows.items())
        columns = {name: [column[row] for _, row in in_order] for name, column in self._columns.items()}
        columns = {STEP: [step for step, _ in in_order], **columns} if in_order else {}
        return Steps.from_columns((run_uid,), (len(in_order),), columns)


def _possible(name: str, number: int) -> int:
    """Return the number if it is within the limits. Beyond them an amount is unknown, and another number is clamped."""
    if -MAX_NUMBER <= number < MAX_NUMBER:
        return number
    return UNKNOWN if absent(name) == UNKNOWN else max(-MAX_NUMBER, min(number, MAX_NUMBER - 1))


@lru_cache(1024)
def absent(name: str) -> int:
    """Return the number that each row has in a column that is absent."""
    if name == SAME_SIZE_SENT:
        return UNKNOWN
    meaning = measure_of(name.removeprefix(MEAN))
    return 0 if meaning is None else meaning.measure.absent


def check_steps(steps: Steps) -> int:
    """Return the number of values in the steps. Raise ValueError if no agent sends such steps."""
    if len(steps.run_uids) != len(steps.counts) or any(count < 0 for count in steps.counts):
        raise ValueError("the numbers of its rows do not belong to its ranks")
    if len({*steps.run_uids}) < len(steps.run_uids):
        raise ValueError("a rank is there twice")
    if (most := max(steps.counts, default=0)) > MAX_ROWS_OF_RANK:
        raise ValueError(f"a rank has {most:,} steps; zmon accepts {MAX_ROWS_OF_RANK:,}")
    _check_names(tuple(steps.columns))
    num_rows = steps.num_rows
    for low, data in steps.columns.values():
        size = len(data) // num_rows if num_rows else 0
        if data and (len(data) != size * num_rows or size not in _CODES):
            raise ValueError("a column has not one number for each row")
        # Smaller differences cannot make a number exceed 64 bits.
        largest = max(_little_endian(array("Q", data))) if size == max(_CODES) else 0
        if not -MAX_NUMBER <= low < MAX_NUMBER - largest:
            raise ValueError("a number is too large")
    if num_rows and STEP not in steps.columns:
        raise ValueError("its steps have no numbers")
    return num_rows * len(steps.columns)


@lru_cache(1024)  # the agents of a job all have the same ones
def _check_names(names: tuple[str, ...]) -> None:
    if len(names) > MAX_COLUMNS:
        raise ValueError(f"it has {len(names):,} columns; zmon accepts {MAX_COLUMNS}")
    if any(plain(name) != name for name in names):
        raise ValueError("the name of a column is not plain text")


def check_values(num_values: int) -> None:
    """Raise ValueError if the steps of one report have more values than any agent sends."""
    if num_values > MAX_VALUES:
        raise ValueError(f"its steps are {num_values:,} values; zmon accepts {MAX_VALUES:,}")


def _little_endian(numbers: array[int]) -> array[int]:
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
