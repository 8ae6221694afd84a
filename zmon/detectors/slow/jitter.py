"""Measure what uneven steps cost, and separate a changing slow rank from a rank that is always slow. Pure; seconds.

The time that a step loses is its largest self time minus the mean self time. If each rank took its own average time in
every step, only the ranks that are always slow would cost time: that part is `fixed`, and the detector `straggler`
reports it. The rest is lost because each step has a different slow rank, or because a rank is slow in some steps only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from operator import itemgetter
from statistics import fmean, median, stdev

import numpy as np

from zmon.detectors.slow.chance import binomial_tail
from zmon.detectors.slow.self_times import SelfTimes
from zmon.job.columns import Values, by_rank, values
from zmon.job.efficiency import lost_seconds
from zmon.schema.aligned_step import AlignedStep

_INPUT_PHASES = ("data", "h2d")
_SURE = 2.0  # sampled steps are no fair sample if they are longer than all steps by this many standard errors
_RARE = 0.001  # chance explains that some rank is the slowest so often if its probability is at least this


@dataclass(frozen=True)
class Jitter:
    """The cost of uneven steps over some steps, per step."""

    step_seconds: float  # mean duration of a step
    changing_ratio: float  # share of the time that is lost to ranks that are not always slow
    worked_ratio: float  # share of the lost time that the samples, tokens, lookups or bytes of the step explain
    by_phase: Mapping[str, float]  # share of the lost time by the phase that made the slowest rank late
    slowest_rank: int  # the rank that is the slowest most often
    slowest_ratio: float  # the share of the steps in which it is, weighted by the time that they lose
    by_chance: bool  # it is the slowest no more often than chance explains

    @property
    def input_ratio(self) -> float:
        """The part of the lost time in which the slowest rank waited for data, or copied it to its device."""
        return sum(self.by_phase.get(phase, 0.0) for phase in _INPUT_PHASES)

    @property
    def phase(self) -> str:
        """The phase that made the slowest rank late for most of the lost time."""
        return max(self.by_phase, key=lambda name: self.by_phase[name], default="other")


def measure_jitter(steps: Sequence[AlignedStep]) -> Jitter:
    """Return the cost of uneven steps; at least two steps are required."""
    lost = [lost_seconds(step) for step in steps]
    mean_lost = max(fmean(lost) - _oversampled_seconds(steps), 0.0)
    slowest = [int(values(step.self_seconds).argmax()) for step in steps]
    rank, lost_by_rank = _slowest_rank(slowest, lost)
    times = SelfTimes(steps, by_rank([step.self_seconds for step in steps]))
    uneven_seconds = _beyond_mean(times.seconds)
    work_ratio = 1 - _beyond_mean(times.without_work().seconds) / uneven_seconds if uneven_seconds else 0.0
    return Jitter(
        step_seconds=fmean(step.seconds for step in steps),
        changing_ratio=max(mean_lost - _fixed_seconds(steps), 0.0) / mean_lost if mean_lost else 0.0,
        worked_ratio=max(work_ratio, 0.0) if mean_lost else 0.0,
        by_phase=_lost_by_phase(steps, lost, slowest),
        slowest_rank=rank,
        slowest_ratio=lost_by_rank / sum(lost) if sum(lost) else 0.0,
        by_chance=_is_by_chance(slowest, lost, rank, len(steps[0].self_seconds)),
    )


def _beyond_mean(seconds: Values) -> float:
    """Return the mean over the steps of max(x) − mean(x) over the ranks (ranks × steps)."""
    return float(np.mean(seconds.max(axis=0) - seconds.mean(axis=0)))


def _fixed_seconds(steps: Sequence[AlignedStep]) -> float:
    """Return the seconds per step that are lost to a rank that is slow in every step; 0 if there is none.

    The rank that is slowest on average is chosen from one half of the steps, and its delay is measured in the other
    half, and vice versa (two-fold cross-validation, Stone 1974). Among many equal ranks, some rank always looks slow in
    the steps from which it is chosen. A rank that is late in few steps may be slow on average, but not in every step.
    So the smaller of mean and median counts.
    """
    seconds = by_rank([step.self_seconds for step in steps])
    delays = []
    for first in (0, 1):
        chosen_from = seconds[:, first::2]
        measured_in = seconds[:, 1 - first :: 2]
        rank = chosen_from.sum(axis=1).argmax()
        late = (measured_in[rank] - measured_in.mean(axis=0)).tolist()
        delays.append(min(fmean(late), median(late)))
    return max(fmean(delays), 0.0)


def _oversampled_seconds(steps: Sequence[AlignedStep]) -> float:
    """Return the seconds by which the sampled steps are longer than the steps for which they stand.

    If something happens at every eighth step and every eighth step is sampled, the samples would show it eight times as
    often as it happens. A difference within chance counts as none: the result is the lower confidence limit of the
    mean difference d, d − 2 s/√n.
    """
    longer = [step.seconds - step.mean.seconds for step in steps if step.mean is not None]
    if len(longer) < 2:
        return 0.0
    return max(fmean(longer) - _SURE * stdev(longer) / sqrt(len(longer)), 0.0)


def _lost_by_phase(steps: Sequence[AlignedStep], lost: Sequence[float], slowest: Sequence[int]) -> dict[str, float]:
    """Return the share of the lost time by phase: in each step the one in which the slowest rank lost most."""
    seconds: defaultdict[str, float] = defaultdict(float)
    most = sorted(lost)[-2]  # a single pause of one rank does not decide
    for step, lost_in_step, rank in zip(steps, lost, slowest, strict=True):
        late = {name: column[rank] - float(values(column).mean()) for name, column in step.phases.items()}
        if late:
            seconds[max(late, key=lambda name: late[name])] += min(lost_in_step, most)
    total = sum(seconds.values())
    return {name: seconds[name] / total for name in sorted(seconds)} if total else {}


def _slowest_rank(slowest: Sequence[int], lost: Sequence[float]) -> tuple[int, float]:
    """Return the rank that is the slowest in most of the lost time, and the time lost in its steps."""
    lost_by_rank: defaultdict[int, float] = defaultdict(float)
    for rank, seconds in zip(slowest, lost, strict=True):
        lost_by_rank[rank] += seconds
    return max(lost_by_rank.items(), key=itemgetter(1))


def _is_by_chance(slowest: Sequence[int], lost: Sequence[float], rank: int, num_ranks: int) -> bool:
    """Return True if one of equal ranks may be the slowest as often by chance, in steps that lose at least the mean.

    The probability is the binomial tail times the number of ranks (Bonferroni).
    """
    mean_lost = fmean(lost)
    heavy = [slow for slow, seconds in zip(slowest, lost, strict=True) if seconds >= mean_lost]
    return num_ranks * binomial_tail(heavy.count(rank), len(heavy), 1 / num_ranks) >= _RARE
