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
from itertools import chain, takewhile
from statistics import fmean, median
from typing import NamedTuple, cast

from zmon.detectors.parts.chance import Chance, binomial_tail, blocks, chance_seconds
from zmon.schema.aligned_step import AlignedStep
from zmon.stats import slope

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
        self, phase: str, lag: Lag, num_steps: int, input_ratio: float, chance: Chance, by_phase: Mapping[str, float]
    ) -> float:
        """Return the share of a lag that one phase has; `by_phase` has the seconds of the lag by phase.

        It is 1 or 0 if only the phase, or only the rest, is late beyond chance. If both or none are, it is the share of
        seconds.
        """
        least_seconds = (1 - input_ratio) * lag.seconds
        in_phase, in_rest = (
            any(each.rank == lag.rank for each in part.lags(num_steps, least_seconds, chance))
            for part in self.split(phase)
        )
        late = sum(seconds for seconds in by_phase.values() if seconds > 0)
        share = by_phase.get(phase, 0.0) / late if late else 0.0
        return share if in_phase == in_rest else float(in_phase)

    def lags(self, num_steps: int, least_seconds: float, chance: Chance | None = None) -> list[Lag]:
        """Return the lags of at least `least_seconds` over the last steps, the largest first.

        With `chance`, only the lags are returned that equal ranks hardly ever have.
        """
        block = num_steps // _THIRDS
        newest = [median(column[-block:]) for column in self.seconds]
        middle = median(newest)
        divisor = 4 if len(newest) == 2 else 2  # the median of two is halfway between them
        late = {rank for rank, own in enumerate(newest) if own - middle >= least_seconds / divisor}
        others = [rank for rank in range(len(self.seconds)) if rank not in late]
        lags = []
        for rank in sorted(late):
            behind = self._behind(rank, block * _THIRDS)
            thirds = [median(part) for part in blocks(behind, block)]
            lag = fmean(thirds)
            if lag >= least_seconds and min(thirds) >= lag / 2 and not _is_in_turn(behind, lag):
                lags.append(Lag(rank, lag, self._others_seconds(rank, num_steps)))
        if chance is None or not lags:
            return sorted(lags, key=lambda lag: -lag.seconds)
        columns = [(self.seconds[lag.rank], self.num_lasting(lag, num_steps)) for lag in lags]
        late_parts = [part for own, lasting in columns for part in (own[: -lasting - block], own[-lasting:])]
        references = [self.seconds[rank] for rank in others[:: len(others) // _MANY + 1]]
        by_chance = chance_seconds(references, late_parts, block, len(others), chance.deviations, len(self.seconds))
        beyond = [lag for lag in lags if lag.seconds >= by_chance]
        lags = [lag for lag in beyond if self._late_by_chance(lag, others, num_steps) < chance.rare_ratio]
        return sorted(lags, key=lambda lag: -lag.seconds)

    def num_lasting(self, lag: Lag, num_steps: int) -> int:
        """Return for how many of the last steps the lag has been at least half as large."""
        block = num_steps // _THIRDS
        parts = blocks(self._behind(lag.rank, len(self.steps)), block)
        return block * sum(1 for _ in takewhile(lambda part: median(part) >= lag.seconds / 2, parts))

    def _late_by_chance(self, lag: Lag, others: Sequence[int], num_steps: int) -> float:
        """Return how probable it is that some rank of equal ranks is late in as many of the last steps as this one.

        A rank is late in a step if it is behind by at least half of the lag. The other ranks show how often that
        happens, and the rank itself before it became slow. Means do not show it: a rank whose batch is four times as
        large in one step of eight is far behind on average, again and again.
        """
        before = len(self.steps) - self.num_lasting(lag, num_steps)
        half, behind = lag.seconds / 2, self._behind(lag.rank, len(self.steps))
        earlier = behind[:before]
        for rank in others[:: len(others) // _MANY + 1]:
            of_other = self._behind(rank, len(self.steps))
            mirrors = len(self.seconds) == 2  # of two ranks, one is ahead by as much as the other is behind
            earlier += of_other[:before] if mirrors and before else of_other
        usual = (sum(seconds >= half for seconds in earlier) + 1) / (len(earlier) + 2)
        count = sum(seconds >= half for seconds in behind[-num_steps:])
        return len(self.seconds) * binomial_tail(count, num_steps, usual)

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


def _is_in_turn(behind: Sequence[float], lag: float) -> bool:
    """Return True if the rank is ahead in so many other steps that it is not behind in half of them on balance.

    Where the slowness moves between two ranks, one of the two is behind in more than half of the steps by chance.
    """
    balance = sum(seconds >= lag / 2 for seconds in behind) - sum(seconds <= -lag / 2 for seconds in behind)
    return 2 * balance < len(behind)


def _median_without(value: float, ordered: Sequence[float]) -> float:
    """Return the median of the sorted values without `value`; at least one other value is needed."""
    left_out, half = bisect_left(ordered, value), (len(ordered) - 1) // 2
    low, high = (index + (index >= left_out) for index in ((len(ordered) - 2) // 2, half))
    return (ordered[low] + ordered[high]) / 2


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
