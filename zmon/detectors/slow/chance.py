"""Estimate how late equal ranks are by chance, and how often. Pure; all values in seconds; all lists by step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import comb, log, sqrt
from statistics import fmean, median
from typing import NamedTuple

from zmon.stats import student

_THIRDS = 3


class Chance(NamedTuple):
    """The distance from chance that a lag needs."""

    deviations: float  # in standard deviations, as if these were known and not estimated
    rare_ratio: float  # the probability that some equal rank is late in as many steps


def blocks(values: Sequence[float], size: int) -> Iterator[Sequence[float]]:
    """Yield the whole blocks, the newest first."""
    for end in range(len(values), size - 1, -size):
        yield values[end - size : end]


def binomial_tail(count: int, number: int, probability: float) -> float:
    """Return the probability of at least `count` of `number` independent events with this probability each."""
    return sum(comb(number, k) * probability**k * (1 - probability) ** (number - k) for k in range(count, number + 1))


def chance_seconds(
    references: Sequence[Sequence[float]],
    late_parts: Sequence[Sequence[float]],
    block: int,
    num_others: int,
    deviations: float,
    num_ranks: int,
) -> float:
    """Return the lag that a rank may have by chance over three blocks in a row.

    It is estimated from blocks of the other ranks, the `references`, and if those are few, from blocks of the late
    ranks, before they were late and since then. The mean of three blocks has a third of the variance of one block, and
    more if blocks resemble the block before them.
    """
    references = list(references)
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
        medians = [median(part) for part in blocks(column, block)]
        middle = fmean(medians)
        residuals.append([value - middle for value in medians])
    freedom = sum(map(len, residuals)) - number
    if freedom < 1:
        return float("inf")
    variance = spread * sum(value * value for values in residuals for value in values) / freedom
    products = [first * second for values in residuals for first, second in pairwise(values)]
    noise = len(products) ** -0.5  # the correlation that independent blocks show by chance
    correlation = min(max(spread * fmean(products) / variance - noise, 0.0), 0.95) if variance else 0.0
    information = (1 - correlation) / (1 + correlation)  # correlated blocks carry less of it
    effective = (freedom + number) * information - number
    of_three = variance / _THIRDS * (1 + (4 * correlation + 2 * correlation**2) / _THIRDS)
    quantile = student(_deviations_of_largest(deviations, num_ranks), effective)
    seconds: float = quantile * (of_three * (1 + 1 / num_others)) ** 0.5
    return seconds


def _deviations_of_largest(deviations: float, number: int) -> float:
    """Return the deviations that the largest of `number` values exceeds as often as the larger of two exceeds these.

    This uses the tail of a normal distribution.
    """
    return sqrt(deviations**2 + 2 * log(number / 2))
