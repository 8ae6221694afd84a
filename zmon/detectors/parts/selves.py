"""Which ranks take longer for their own part of a step than the others, again and again, beyond chance and beyond
what their share of the work explains?

Own time is all of a rank's phases together: in a single op a rank behind a slow link looks late as well. Ranks are
compared within each step, so that what strikes all of them cancels out. A lag must be there in each third of the steps
that are looked at, and be larger than what the others show by chance: blocks of as many steps, over all steps that are
kept, tell how much that is and how long it hangs on. Pure; seconds; all lists are by step.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise, takewhile
from math import log, sqrt
from statistics import fmean, median
from typing import NamedTuple, cast

from zmon.schema.aligned_step import AlignedStep
from zmon.stats import slope, student

_OP = "all_to_all"  # of others the bytes tell of a rank's role, not of its work
_THIRDS = 3
_MANY = 64  # ranks that tell what chance does, and steps of as many that tell what work takes


class Lag(NamedTuple):
    """One rank behind the others."""

    rank: int
    seconds: float  # a step, beyond the median of the others
    others_seconds: float  # what they take


@dataclass(frozen=True)
class Selves:
    """Own times of the ranks in the recent steps."""

    steps: Sequence[AlignedStep]
    own: Sequence[Sequence[float]]  # by rank, then by step

    @classmethod
    def of(cls, steps: Sequence[AlignedStep]) -> Selves:
        """Of one step at least; of those that stand for others, what these took on average."""
        steps = [step.mean or step for step in steps]
        return cls(steps, list(zip(*(step.self_seconds for step in steps), strict=True)))

    def without_work(self) -> Selves:
        """The same with what more work explains taken out."""
        own = [list(column) for column in self.own]
        for work in _works(self.steps):
            _without(own, work)
        return Selves(self.steps, own)

    def split(self, phase: str) -> tuple[Selves, Selves]:
        """The same for one phase alone, and for all beside it."""
        nothing = (0.0,) * len(self.own)
        alone = list(zip(*(step.phases.get(phase, nothing) for step in self.steps), strict=True))
        beside = [[a - b for a, b in zip(*of, strict=True)] for of in zip(self.own, alone, strict=True)]
        return Selves(self.steps, alone), Selves(self.steps, beside)

    def covering(self, num_steps: int, seconds: float) -> int | None:
        """How many of the last steps, in thirds, are so many at least and last so long; None: more than are known."""
        typical = median(step.seconds for step in self.steps)
        lasted = 0.0
        for taken, step in enumerate(reversed(self.steps), 1):
            lasted += typical * step.stands_for
            if taken % _THIRDS == 0 and taken >= num_steps and lasted >= seconds:
                return taken
        return None

    def typical(self, num_steps: int) -> float:
        """What the middle rank takes for its own part of a step, over the last so many."""
        middle: float = median(median(row) for row in zip(*(own[-num_steps:] for own in self.own), strict=True))
        return middle

    def caught_up(self, rank: int, num_steps: int, least_seconds: float) -> bool:
        """Whether a rank is less behind the others than that: in most of the last so many steps, or in the mean of the
        newest two thirds, which tells sooner where steps differ much: of long ones few pass within half a minute."""
        behind = self._behind(rank, num_steps)
        newest = behind[num_steps // _THIRDS :]
        return median(behind) < least_seconds or fmean(newest) < least_seconds

    def lags(self, num_steps: int, least_seconds: float, deviations: float | None = None) -> list[Lag]:
        """Of the ranks that were `least_seconds` behind in the last so many steps, the largest first.

        `deviations` says how far beyond chance that must be, as if chance were known and not estimated; None: however
        far.
        """
        block = num_steps // _THIRDS
        newest = [median(column[-block:]) for column in self.own]
        middle = median(newest)
        part = 4 if len(newest) == 2 else 2  # the middle of two is halfway between them
        late = {rank for rank, own in enumerate(newest) if own - middle >= least_seconds / part}
        others = [rank for rank in range(len(self.own)) if rank not in late]
        found = []
        for rank in sorted(late):
            thirds = [median(part) for part in _blocks(self._behind(rank, block * _THIRDS), block)]
            lag = fmean(thirds)
            if lag >= least_seconds and min(thirds) >= lag / 2:
                found.append(Lag(rank, lag, median(self._others(rank, num_steps))))
        if deviations is None or not found:
            return sorted(found, key=lambda lag: -lag.seconds)
        since = [(self.own[lag.rank], self.lasting(lag, num_steps)) for lag in found]
        late_ones = [part for own, lasting in since for part in (own[: -lasting - block], own[-lasting:])]
        beyond = self._chance(others, late_ones, block, deviations)
        return sorted((lag for lag in found if lag.seconds >= beyond), key=lambda lag: -lag.seconds)

    def lasting(self, lag: Lag, num_steps: int) -> int:
        """How many of the last steps it goes back, at least half as large."""
        block = num_steps // _THIRDS
        blocks = _blocks(self._behind(lag.rank, len(self.steps)), block)
        return block * sum(1 for _ in takewhile(lambda part: median(part) >= lag.seconds / 2, blocks))

    @cached_property
    def _ordered(self) -> list[list[float]]:
        """By step, smallest first."""
        return [sorted(row) for row in zip(*self.own, strict=True)]

    def _others(self, rank: int, num_steps: int) -> list[float]:
        own = self.own[rank][-num_steps:]
        return [_middle_without(mine, row) for mine, row in zip(own, self._ordered[-num_steps:], strict=True)]

    def _behind(self, rank: int, num_steps: int) -> list[float]:
        own = self.own[rank][-num_steps:]
        return [mine - theirs for mine, theirs in zip(own, self._others(rank, num_steps), strict=True)]

    def _chance(
        self, others: Sequence[int], late_ones: Sequence[Sequence[float]], block: int, deviations: float
    ) -> float:
        """How far a rank gets behind by chance, in three blocks on end: as told by blocks of the others, and where they
        are few, by those of the late ones, before they were late and since.

        The mean of three has the variance of one, by 3, and more where a block is like the one before it.
        """
        chosen = [self.own[rank] for rank in others[:: len(others) // _MANY + 1]]
        spread = 1.0
        if len(chosen) > 2:  # what all have in common is nobody's chance
            common = [fmean(row) for row in zip(*chosen, strict=True)]
            chosen = [[own - middle for own, middle in zip(column, common, strict=True)] for column in chosen]
            spread = len(chosen) / (len(chosen) - 1)
        else:
            chosen += [column for column in late_ones if len(column) >= 2 * block]
        number = len(chosen)
        around = []
        for column in chosen:
            medians = [median(part) for part in _blocks(column, block)]
            middle = fmean(medians)
            around.append([value - middle for value in medians])
        free = sum(map(len, around)) - number
        if free < 1:
            return float("inf")
        variance = spread * sum(value * value for values in around for value in values) / free
        pairs = [one * two for values in around for one, two in pairwise(values)]
        by_luck = len(pairs) ** -0.5  # so much alike are blocks that have nothing to do with each other
        alike = min(max(spread * fmean(pairs) / variance - by_luck, 0.0), 0.95) if variance else 0.0
        free_ones = (free + number) * (1 - alike) / (1 + alike) - number  # blocks that are alike tell less
        of_three = variance / _THIRDS * (1 + (4 * alike + 2 * alike**2) / _THIRDS)
        beyond: float = (
            student(_of_many(deviations, len(self.own)), free_ones) * (of_three * (1 + 1 / len(others))) ** 0.5
        )
        return beyond


def _of_many(deviations: float, number: int) -> float:
    """How far the luckiest of so many gets as often as the luckier of two gets so far (the tail of a normal)."""
    return sqrt(deviations**2 + 2 * log(number / 2))


def _middle_without(value: float, ordered: Sequence[float]) -> float:
    """The median of the others, of which there is one at least."""
    left_out, half = bisect_left(ordered, value), (len(ordered) - 1) // 2
    low, high = (at + (at >= left_out) for at in ((len(ordered) - 2) // 2, half))
    return (ordered[low] + ordered[high]) / 2


def _blocks(values: Sequence[float], size: int) -> Iterator[Sequence[float]]:
    """Whole blocks, the newest first."""
    for end in range(len(values), size - 1, -size):
        yield values[end - size : end]


def _works(steps: Sequence[AlignedStep]) -> Iterator[Sequence[Sequence[int] | None]]:
    """What measures the work of a rank in a step, by step and rank: where most steps tell, and not all have the same.

    None for a step that does not tell.
    """
    exchanged: list[tuple[int | None, ...]] = [
        tuple(map(sum, zip(step.sent_bytes[_OP], step.received_bytes[_OP], strict=True)))
        if _OP in step.sent_bytes
        else (None,)
        for step in steps
    ]
    for rows in ([step.lookups for step in steps], [step.samples for step in steps], exchanged):
        told = [cast(Sequence[int], row) if None not in row else None for row in rows]
        known = [row for row in told if row is not None]
        if 2 * len(known) >= len(steps) and any(min(row) != max(row) for row in known):
            yield told


def _without(own: list[list[float]], work: Sequence[Sequence[int] | None]) -> None:
    """Take out what a rank needs for being given more work than the middle one, and add what it is spared.

    How long work takes is told by all steps and ranks together, and at most what a middle rank needs for all of it: a
    rank with a little more work is not excused for taking twice as long.
    """
    times = list(zip(*own, strict=True))
    beyond = [_from_middle(row or (0,) * len(own)) for row in work]
    later = [_from_middle(row) for row in times]
    every = len(own) * len(times) // _MANY**2 + 1
    points = zip(chain.from_iterable(beyond[::every]), chain.from_iterable(later[::every]), strict=True)
    typical = median(median(row) for row in work if row)
    most = median(median(row) for row in times) / typical if typical else 0.0
    each = min(max(slope(points) or 0.0, 0.0), most)
    for rank, column in enumerate(own):
        for at, amounts in enumerate(beyond):
            column[at] -= each * amounts[rank]


def _from_middle(row: Sequence[float]) -> list[float]:
    middle = median(row)
    return [value - middle for value in row]
