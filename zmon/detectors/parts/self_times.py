"""Find the ranks with a longer self time than the others, step after step, beyond chance and beyond their work.

The self time of a rank is the sum of its phases. Single ops are not compared, because a rank behind a slow link looks
late in them as well. Ranks are compared within each step, so that effects on all ranks cancel out. A lag must show in
each third of the last steps, and must be larger than the lags that the other ranks have by chance. Blocks of as many
steps, over all steps in the snapshot, show how large such lags are, and how much each block resembles the block before.
Pure; all values in seconds; all lists by step.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise, takewhile
from math import log, sqrt
from statistics import fmean, median
from typing import NamedTuple, cast

from zmon.schema.aligned_step import AlignedStep
from zmon.stats import slope, student

_OP = "all_to_all"  # the bytes of other ops depend on a rank's role, not on its work
_THIRDS = 3
_MANY = 64  # enough ranks to estimate chance; enough ranks, and steps, to estimate the cost of work


class Lag(NamedTuple):
    """The delay of one rank behind the others."""

    rank: int
    seconds: float  # per step, beyond the median of the others
    others_seconds: float  # the median of the others


@dataclass(frozen=True)
class SelfTimes:
    """The self times of all ranks in the recent steps."""

    steps: Sequence[AlignedStep]
    seconds: Sequence[Sequence[float]]  # rank → step → seconds
    roles: Sequence[Sequence[int]] = ()  # the ranks of each role, if they are compared within their roles

    @classmethod
    def from_steps(cls, steps: Sequence[AlignedStep]) -> SelfTimes:
        """Return the self times in these steps, at least one; a step that stands for others has their mean."""
        steps = [step.mean or step for step in steps]
        return cls(steps, list(zip(*(step.self_seconds for step in steps), strict=True)))

    def without_work(self) -> SelfTimes:
        """Return the self times without the part that a larger share of the work explains."""
        columns = [list(column) for column in self.seconds]
        for work in _works(self.steps):
            _subtract_work(columns, work)
        return SelfTimes(self.steps, columns, self.roles)

    def within(self, roles: Sequence[Sequence[int]]) -> SelfTimes:
        """Return the self times as if all roles took equally long: each rank keeps only its delay within its role.

        A rank that is alone in its role has no delay, because nobody does the same work.
        """
        if len(roles) < 2:
            return self
        columns: list[list[float]] = [[] for _ in self.seconds]
        for row in zip(*self.seconds, strict=True):
            middle = median(row)
            for ranks in roles:
                ordered = sorted(row[rank] for rank in ranks)
                for rank in ranks:
                    own = row[rank]
                    columns[rank].append(middle + (own - _median_without(own, ordered) if len(ranks) > 1 else 0.0))
        return SelfTimes(self.steps, columns, roles)

    def split(self, phase: str) -> tuple[SelfTimes, SelfTimes]:
        """Return the self times in one phase alone, and in all other phases."""
        nothing = (0.0,) * len(self.seconds)
        columns = list(zip(*(step.phases.get(phase, nothing) for step in self.steps), strict=True))
        alone = SelfTimes(self.steps, columns).within(self.roles)
        others = [[a - b for a, b in zip(*pair, strict=True)] for pair in zip(self.seconds, alone.seconds, strict=True)]
        return alone, SelfTimes(self.steps, others, self.roles)

    def num_covering(self, num_steps: int, seconds: float) -> int | None:
        """Return the number of last steps, at least `num_steps`, that cover `seconds`; None if there are too few.

        The number can be divided by three.
        """
        typical = median(step.seconds for step in self.steps)
        lasted = 0.0
        for number, step in enumerate(reversed(self.steps), 1):
            lasted += typical * step.stands_for
            if number % _THIRDS == 0 and number >= num_steps and lasted >= seconds:
                return number
        return None

    def typical_seconds(self, num_steps: int) -> float:
        """Return the self time of the median rank over the last steps."""
        middle: float = median(median(row) for row in zip(*(own[-num_steps:] for own in self.seconds), strict=True))
        return middle

    def has_caught_up(self, rank: int, num_steps: int, least_seconds: float) -> bool:
        """Return True if a rank is less than `least_seconds` behind the others.

        Either the median over the last steps counts, or the mean of the newest two thirds. The mean shows it sooner
        where steps differ much: only a few long steps fit into half a minute.
        """
        behind = self._behind(rank, num_steps)
        newest = behind[num_steps // _THIRDS :]
        return median(behind) < least_seconds or fmean(newest) < least_seconds

    def phase_ratio(
        self, phase: str, lag: Lag, num_steps: int, input_ratio: float, deviations: float, by_phase: Mapping[str, float]
    ) -> float:
        """Return the share of a lag that one phase has; `by_phase` has the seconds of the lag by phase.

        It is 1 or 0 if only the phase, or only the rest, is late beyond chance. If both or none are, it is the share of
        seconds.
        """
        least_seconds = (1 - input_ratio) * lag.seconds
        in_phase, in_rest = (
            any(each.rank == lag.rank for each in part.lags(num_steps, least_seconds, deviations))
            for part in self.split(phase)
        )
        late = sum(seconds for seconds in by_phase.values() if seconds > 0)
        share = by_phase.get(phase, 0.0) / late if late else 0.0
        return share if in_phase == in_rest else float(in_phase)

    def lags(self, num_steps: int, least_seconds: float, deviations: float | None = None) -> list[Lag]:
        """Return the lags of at least `least_seconds` over the last steps, the largest first.

        `deviations` is the distance from chance that a lag needs, in standard deviations, as if these were known and
        not estimated; None means any distance.
        """
        block = num_steps // _THIRDS
        newest = [median(column[-block:]) for column in self.seconds]
        middle = median(newest)
        divisor = 4 if len(newest) == 2 else 2  # the median of two is halfway between them
        late = {rank for rank, own in enumerate(newest) if own - middle >= least_seconds / divisor}
        others = [rank for rank in range(len(self.seconds)) if rank not in late]
        lags = []
        for rank in sorted(late):
            thirds = [median(part) for part in _blocks(self._behind(rank, block * _THIRDS), block)]
            lag = fmean(thirds)
            if lag >= least_seconds and min(thirds) >= lag / 2:
                lags.append(Lag(rank, lag, self._others_seconds(rank, num_steps)))
        if deviations is None or not lags:
            return sorted(lags, key=lambda lag: -lag.seconds)
        columns = [(self.seconds[lag.rank], self.num_lasting(lag, num_steps)) for lag in lags]
        late_parts = [part for own, lasting in columns for part in (own[: -lasting - block], own[-lasting:])]
        by_chance = self._chance_seconds(others, late_parts, block, deviations)
        return sorted((lag for lag in lags if lag.seconds >= by_chance), key=lambda lag: -lag.seconds)

    def num_lasting(self, lag: Lag, num_steps: int) -> int:
        """Return for how many of the last steps the lag has been at least half as large."""
        block = num_steps // _THIRDS
        blocks = _blocks(self._behind(lag.rank, len(self.steps)), block)
        return block * sum(1 for _ in takewhile(lambda part: median(part) >= lag.seconds / 2, blocks))

    @cached_property
    def _ordered(self) -> list[list[float]]:
        """The self times by step, the smallest first."""
        return [sorted(row) for row in zip(*self.seconds, strict=True)]

    def _others(self, rank: int, num_steps: int) -> list[float]:
        """Return the median of the other ranks, by step."""
        own = self.seconds[rank][-num_steps:]
        return [_median_without(value, row) for value, row in zip(own, self._ordered[-num_steps:], strict=True)]

    def _others_seconds(self, rank: int, num_steps: int) -> float:
        """Return the self time of the other ranks that do the same work, over the last steps."""
        peers = next((ranks for ranks in self.roles if rank in ranks), ())
        if len(peers) < 2:
            return median(self._others(rank, num_steps))
        rows = (step.self_seconds for step in self.steps[-num_steps:])
        return median(median(row[peer] for peer in peers if peer != rank) for row in rows)

    def _behind(self, rank: int, num_steps: int) -> list[float]:
        """Return the seconds by which the rank is behind the median of the others, by step."""
        own = self.seconds[rank][-num_steps:]
        return [value - middle for value, middle in zip(own, self._others(rank, num_steps), strict=True)]

    def _chance_seconds(
        self, others: Sequence[int], late_parts: Sequence[Sequence[float]], block: int, deviations: float
    ) -> float:
        """Return the lag that a rank may have by chance over three blocks in a row.

        It is estimated from blocks of the other ranks and, if those are few, from blocks of the late ranks, before they
        were late and since then. The mean of three blocks has a third of the variance of one block, and more if blocks
        resemble the block before them.
        """
        references = [self.seconds[rank] for rank in others[:: len(others) // _MANY + 1]]
        spread = 1.0
        if len(references) > 2:  # a variation that all ranks share makes no rank late
            common = [fmean(row) for row in zip(*references, strict=True)]
            references = [[own - middle for own, middle in zip(column, common, strict=True)] for column in references]
            spread = len(references) / (len(references) - 1)
        else:
            references += [column for column in late_parts if len(column) >= 2 * block]
        number = len(references)
        residuals = []
        for column in references:
            medians = [median(part) for part in _blocks(column, block)]
            middle = fmean(medians)
            residuals.append([value - middle for value in medians])
        freedom = sum(map(len, residuals)) - number
        if freedom < 1:
            return float("inf")
        variance = spread * sum(value * value for values in residuals for value in values) / freedom
        products = [first * second for values in residuals for first, second in pairwise(values)]
        noise = len(products) ** -0.5  # the correlation that independent blocks show by chance
        correlation = min(max(spread * fmean(products) / variance - noise, 0.0), 0.95) if variance else 0.0
        effective = (freedom + number) * (1 - correlation) / (
            1 + correlation
        ) - number  # correlated blocks carry less information
        of_three = variance / _THIRDS * (1 + (4 * correlation + 2 * correlation**2) / _THIRDS)
        quantile = student(_deviations_of_largest(deviations, len(self.seconds)), effective)
        seconds: float = quantile * (of_three * (1 + 1 / len(others))) ** 0.5
        return seconds


def _deviations_of_largest(deviations: float, number: int) -> float:
    """Return the deviations that the largest of `number` values exceeds as often as the larger of two exceeds these.

    This uses the tail of a normal distribution.
    """
    return sqrt(deviations**2 + 2 * log(number / 2))


def _median_without(value: float, ordered: Sequence[float]) -> float:
    """Return the median of the sorted values without `value`; at least one other value is needed."""
    left_out, half = bisect_left(ordered, value), (len(ordered) - 1) // 2
    low, high = (index + (index >= left_out) for index in ((len(ordered) - 2) // 2, half))
    return (ordered[low] + ordered[high]) / 2


def _blocks(values: Sequence[float], size: int) -> Iterator[Sequence[float]]:
    """Yield the whole blocks, the newest first."""
    for end in range(len(values), size - 1, -size):
        yield values[end - size : end]


def _works(steps: Sequence[AlignedStep]) -> Iterator[Sequence[Sequence[int] | None]]:
    """Yield the measures of work by step and rank: lookups, samples, and bytes of all-to-all.

    A measure counts if at least half of the steps have it and it differs between ranks. It is None in a step without
    it.
    """
    exchanged: list[tuple[int | None, ...]] = [
        tuple(map(sum, zip(step.sent_bytes[_OP], step.received_bytes[_OP], strict=True)))
        if _OP in step.sent_bytes
        else (None,)
        for step in steps
    ]
    for rows in ([step.lookups for step in steps], [step.samples for step in steps], exchanged):
        complete = [cast(Sequence[int], row) if None not in row else None for row in rows]
        measured = [row for row in complete if row is not None]
        if 2 * len(measured) >= len(steps) and any(min(row) != max(row) for row in measured):
            yield complete


def _subtract_work(columns: list[list[float]], work: Sequence[Sequence[int] | None]) -> None:
    """Subtract the time that a rank needs because it has more work than the median rank; add it if it has less.

    The time per unit of work is estimated from all steps and ranks. It is at most the self time of the median rank
    divided by its work, so that a little more work does not excuse a rank that takes twice as long.
    """
    times = list(zip(*columns, strict=True))
    beyond = [_minus_median(row or (0,) * len(columns)) for row in work]
    later = [_minus_median(row) for row in times]
    stride = len(columns) * len(times) // _MANY**2 + 1
    points = zip(chain.from_iterable(beyond[::stride]), chain.from_iterable(later[::stride]), strict=True)
    typical = median(median(row) for row in work if row)
    max_seconds = median(median(row) for row in times) / typical if typical else 0.0
    seconds_per_unit = min(max(slope(points) or 0.0, 0.0), max_seconds)
    for rank, column in enumerate(columns):
        for index, amounts in enumerate(beyond):
            column[index] -= seconds_per_unit * amounts[rank]


def _minus_median(row: Sequence[float]) -> list[float]:
    middle = median(row)
    return [value - middle for value in row]
