"""Find the ranks with a longer self time than the others, step after step, beyond chance and beyond their work.

The self time of a rank is the sum of its phases. Single ops are not compared, because a rank behind a slow link looks
late in them as well. Ranks are compared within each step, so that effects on all ranks cancel out. A lag must show in
each third of the last steps, and must be larger than the lags that the other ranks have by chance (`chance`). Pure; all
values in seconds; all lists by step, all arrays by rank and step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from statistics import fmean, median
from typing import NamedTuple

import numpy as np

from zmon.detectors.slow.chance import THIRDS, Chance, binomial_tail, blocks, chance_seconds
from zmon.detectors.slow.work import measures_of_work, seconds_without_work
from zmon.job.columns import Values, by_rank
from zmon.schema.aligned_step import AlignedStep

_MANY_RANKS = 64  # enough to estimate chance


class Lag(NamedTuple):
    """The delay of one rank behind the others."""

    rank: int
    seconds: float  # per step, beyond the median of the others
    others_seconds: float  # the median of the others


@dataclass(frozen=True)
class SelfTimes:
    """The self times of all ranks in the recent steps."""

    steps: Sequence[AlignedStep]
    seconds: Values  # rank → step → seconds
    roles: Sequence[Sequence[int]] = ()  # the ranks of each role, if they are compared within their roles

    @classmethod
    def from_steps(cls, steps: Sequence[AlignedStep]) -> SelfTimes:
        """Return the self times in these steps, at least one; a step that stands for others has their mean."""
        steps = [step.mean or step for step in steps]
        return cls(steps, by_rank([step.self_seconds for step in steps]))

    def without_work(self) -> SelfTimes:
        """Return the self times without the part that a larger share of the work explains."""
        seconds = self.seconds
        for work in measures_of_work(self.steps):
            seconds = seconds_without_work(seconds, work)
        return SelfTimes(self.steps, seconds, self.roles)

    def within(self, roles: Sequence[Sequence[int]]) -> SelfTimes:
        """Return the self times as if all roles took equally long: each rank keeps only its delay within its role.

        A rank that is alone in its role has no delay, because nobody does the same work.
        """
        if len(roles) < 2:
            return self
        seconds = np.tile(np.median(self.seconds, axis=0), (len(self.seconds), 1))
        for ranks in roles:
            if len(ranks) > 1:
                in_role = self.seconds[list(ranks)]
                seconds[list(ranks)] += in_role - _medians_of_others(in_role, _around_median(in_role), len(in_role))
        return SelfTimes(self.steps, seconds, roles)

    def split(self, phase: str) -> tuple[SelfTimes, SelfTimes]:
        """Return the self times in one phase alone, and in all other phases."""
        nothing = (0.0,) * len(self.seconds)
        in_phase = by_rank([step.phases.get(phase, nothing) for step in self.steps])
        alone = SelfTimes(self.steps, in_phase).within(self.roles)
        return alone, SelfTimes(self.steps, self.seconds - alone.seconds, self.roles)

    def num_covering(self, num_steps: int, seconds: float) -> int | None:
        """Return the number of last steps, at least `num_steps`, that cover `seconds`; None if there are too few.

        The number can be divided by three.
        """
        typical = median(step.seconds for step in self.steps)
        lasted = 0.0
        for number, step in enumerate(reversed(self.steps), 1):
            lasted += typical * step.stands_for
            if number % THIRDS == 0 and number >= num_steps and lasted >= seconds:
                return number
        return None

    def typical_seconds(self, num_steps: int) -> float:
        """Return the self time of the median rank over the last steps."""
        return float(np.median(np.median(self.seconds[:, -num_steps:], axis=0)))

    def has_caught_up(self, rank: int, num_steps: int, least_seconds: float) -> bool:
        """Return True if a rank is less than `least_seconds` behind the others.

        Either the median over the last steps counts, or the mean of the newest two thirds. The mean shows it sooner
        where steps differ much: only a few long steps fit into half a minute.
        """
        behind = self._behind(rank, num_steps)
        newest = behind[num_steps // THIRDS :]
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
            any(other.rank == lag.rank for other in part.lags(num_steps, least_seconds, chance))
            for part in self.split(phase)
        )
        late = sum(seconds for seconds in by_phase.values() if seconds > 0)
        share = by_phase.get(phase, 0.0) / late if late else 0.0
        return share if in_phase == in_rest else float(in_phase)

    def lags(self, num_steps: int, least_seconds: float, chance: Chance | None = None) -> list[Lag]:
        """Return the lags of at least `least_seconds` over the last steps, the largest first.

        With `chance`, only the lags are returned that equal ranks hardly ever have.
        """
        block = num_steps // THIRDS
        newest = np.median(self.seconds[:, -block:], axis=1)
        # Choose candidates quickly, by half of the least lag. The median of two ranks is halfway between them.
        divisor = 4 if len(newest) == 2 else 2
        is_late = newest - np.median(newest) >= least_seconds / divisor
        others = np.flatnonzero(~is_late).tolist()
        lags = []
        for rank in np.flatnonzero(is_late).tolist():
            behind = self._behind(rank, block * THIRDS)
            thirds = [median(part) for part in blocks(behind, block)]
            lag = fmean(thirds)
            if lag >= least_seconds and min(thirds) >= lag / 2 and not _is_in_turn(behind, lag):
                lags.append(Lag(rank, lag, self._others_seconds(rank, num_steps)))
        if chance is None or not lags:
            return sorted(lags, key=lambda lag: -lag.seconds)
        columns = [(self.seconds[lag.rank].tolist(), self.num_lasting(lag, num_steps)) for lag in lags]
        late_parts = [part for late, lasting in columns for part in (late[: -lasting - block], late[-lasting:])]
        references = self.seconds[others[:: len(others) // _MANY_RANKS + 1]].tolist()
        by_chance = chance_seconds(references, late_parts, block, len(others), chance.deviations, len(self.seconds))
        beyond = [lag for lag in lags if lag.seconds >= by_chance]
        lags = [lag for lag in beyond if self._chance_to_be_late(lag, others, num_steps) < chance.rare_ratio]
        return sorted(lags, key=lambda lag: -lag.seconds)

    def num_lasting(self, lag: Lag, num_steps: int) -> int:
        """Return for how many of the last steps the lag has been at least half as large."""
        block = num_steps // THIRDS
        parts = blocks(self._behind(lag.rank, len(self.steps)), block)
        return block * sum(1 for _ in takewhile(lambda part: median(part) >= lag.seconds / 2, parts))

    def _chance_to_be_late(self, lag: Lag, others: Sequence[int], num_steps: int) -> float:
        """Return how probable it is that some rank of equal ranks is late in as many of the last steps as this one.

        A rank is late in a step if it is behind by at least half of the lag. The other ranks show how often that
        happens, and the rank itself before it became slow: (k + 1)/(n + 2) for k of n steps (Laplace's rule of
        succession). The result is the binomial tail times the number of ranks (Bonferroni). Means do not show it: a
        rank whose batch is four times as large in one step of eight is far behind on average, again and again.

        Ranks that have begun to be late in turn were not late earlier. So if other ranks are late in the last steps,
        there is a second probability: that this rank is late so often if a random rank is late each time. The larger
        one counts.
        """
        before = len(self.steps) - self.num_lasting(lag, num_steps)
        half = lag.seconds / 2
        behind = self._behind(lag.rank, len(self.steps))
        compared = others[:: len(others) // _MANY_RANKS + 1]
        earlier = behind[:before]
        now: list[float] = []
        for rank in compared:
            other_behind = self._behind(rank, len(self.steps))
            is_mirror = len(self.seconds) == 2  # of two ranks, one is ahead by as much as the other is behind
            earlier += other_behind[:before] if is_mirror and before else other_behind
            now += other_behind[-num_steps:]
        usual_ratio = (sum(seconds >= half for seconds in earlier) + 1) / (len(earlier) + 2)
        num_late = sum(seconds >= half for seconds in behind[-num_steps:])
        num_others_late = sum(seconds >= half for seconds in now)
        in_turn = 0.0
        if num_others_late:
            in_turn = binomial_tail(num_late, num_late + num_others_late, 1 / (1 + len(compared)))
        return len(self.seconds) * max(binomial_tail(num_late, num_steps, usual_ratio), in_turn)

    @cached_property
    def _middle_seconds(self) -> Values:
        return _around_median(self.seconds)

    def _others(self, rank: int, num_steps: int) -> Values:
        """Return the median of the other ranks over the last steps."""
        medians: Values = _medians_of_others(self.seconds[rank : rank + 1], self._middle_seconds, len(self.seconds))[0]
        return medians[-num_steps:]

    def _others_seconds(self, rank: int, num_steps: int) -> float:
        """Return the self time of the other ranks that do the same work, over the last steps."""
        peers = next((ranks for ranks in self.roles if rank in ranks), ())
        if len(peers) < 2:
            return float(np.median(self._others(rank, num_steps)))
        rows = (step.self_seconds for step in self.steps[-num_steps:])
        return median(median(row[peer] for peer in peers if peer != rank) for row in rows)

    def _behind(self, rank: int, num_steps: int) -> list[float]:
        """Return the seconds by which the rank is behind the median of the others, by step."""
        seconds: list[float] = (self.seconds[rank, -num_steps:] - self._others(rank, num_steps)).tolist()
        return seconds


def _is_in_turn(behind: Sequence[float], lag: float) -> bool:
    """Return True if the steps in which the rank is behind outnumber the steps ahead by less than half of all steps.

    Where the slowness moves between two ranks, one of the two is behind in more than half of the steps by chance.
    """
    balance = sum(seconds >= lag / 2 for seconds in behind) - sum(seconds <= -lag / 2 for seconds in behind)
    return 2 * balance < len(behind)


def _around_median(seconds: Values) -> Values:
    """Return the values of the ranks around the median in each step, in order: four, or fewer if there are fewer ranks.

    The median of all ranks but one lies between two of them (ranks × steps → values × steps).
    """
    first = max((len(seconds) - 2) // 2, 0)
    last = min((len(seconds) - 1) // 2 + 2, len(seconds))
    return np.partition(seconds, range(first, last), axis=0)[first:last]


def _medians_of_others(seconds: Values, middles: Values, num_ranks: int) -> Values:
    """Return the medians of all ranks but one, for each rank in `seconds`, given the values in the middle of all ranks.

    Without a value below the middle the median moves up; without a value above it, the median moves down. With n ranks
    in order x₀ … xₙ₋₁ the others are n − 1. Their median is the mean of places ⌊(n − 2)/2⌋ and ⌊(n − 1)/2⌋, and each
    place is one higher if the rank left out is not above it.
    """
    high = (num_ranks - 1) // 2 - (num_ranks - 2) // 2
    lower, upper = (np.where(seconds <= middles[place], middles[place + 1], middles[place]) for place in (0, high))
    result: Values = (lower + upper) / 2
    return result
