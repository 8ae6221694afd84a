"""Estimate how late equal ranks are by chance, and how often. Pure; all values in seconds; all lists by step.

Medians of blocks of steps are compared, because single steps vary more. Blocks over all steps of a snapshot show how
much such medians vary between ranks, and how much each block resembles the block before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import comb, log, sqrt
from statistics import fmean, median
from typing import NamedTuple

from zmon.stats import student

THIRDS = 3  # a lag must show in each third of the compared steps


class Chance(NamedTuple):
    """The distance from chance that a lag needs."""

    deviations: float  # in standard deviations, as if these were known and not estimated
    rare_ratio: float  # the probability that some equal rank is late in as many steps


def blocks(values: Sequence[float], size: int) -> Iterator[Sequence[float]]:
    """Yield the whole blocks of this many values, the newest first; a rest at the beginning is left out."""
    for end in range(len(values), size - 1, -size):
        yield values[end - size : end]


def binomial_tail(least: int, trials: int, probability: float) -> float:
    """Return the probability of at least `least` successes in independent trials: the upper tail of the binomial."""
    return sum(comb(trials, k) * probability**k * (1 - probability) ** (trials - k) for k in range(least, trials + 1))


def chance_seconds(
    references: Sequence[Sequence[float]],
    late_parts: Sequence[Sequence[float]],
    block: int,
    num_others: int,
    deviations: float,
    num_ranks: int,
) -> float:
    """Return the lag that a rank may have by chance over three blocks in a row, each with the median of its steps.

    The result is t · s · √((1 + 1/m) / n*) for `num_others` = m. It is the one-sided prediction limit for the
    difference of one rank and the mean of m others.

    - s² is the variance of blocks of the other ranks, the `references`, pooled over their means. If those are few,
      blocks of the late ranks count, before they were late and since then. Without the mean of all g references the
      variance is smaller by (g − 1)/g, which `spread` makes up for.
    - ρ is the correlation of a block with the block before, of the same residuals. Independent blocks show one of
      1/√N by chance (standard error of N products, Bartlett 1946), which is taken off.
    - n* is the effective number of the three blocks: n/n* = 1 + 2 Σ (1 − k/n) ρᵏ, summed over k = 1 … n − 1 (Bayley &
      Hammersley 1946), if each block depends on the one before only (first-order autoregression).
    - t is a quantile of Student's distribution. The degrees of freedom of s² are those of the effective number of
      blocks, N (1 − ρ)/(1 + ρ), the limit of n* for many blocks, less one for each mean. For a variance the limit is
      N (1 − ρ²)/(1 + ρ²), so this is on the safe side.
    """
    references = list(references)
    spread = 1.0
    if len(references) > 2:  # a variation that all ranks share makes no rank late
        common = [fmean(row) for row in zip(*references, strict=True)]
        references = [[value - middle for value, middle in zip(column, common, strict=True)] for column in references]
        spread = len(references) / (len(references) - 1)
    else:
        references += [column for column in late_parts if len(column) >= 2 * block]
    num_means = len(references)
    residuals = []
    for column in references:
        medians = [median(part) for part in blocks(column, block)]
        middle = fmean(medians)
        residuals.append([value - middle for value in medians])
    freedom = sum(map(len, residuals)) - num_means
    if freedom < 1:
        return float("inf")
    variance = spread * sum(value * value for values in residuals for value in values) / freedom
    products = [first * second for values in residuals for first, second in pairwise(values)]
    noise = len(products) ** -0.5
    correlation = min(max(spread * fmean(products) / variance - noise, 0.0), 0.95) if variance else 0.0
    information = (1 - correlation) / (1 + correlation)
    effective = (freedom + num_means) * information - num_means
    variance_of_mean = variance / THIRDS * (1 + (4 * correlation + 2 * correlation**2) / THIRDS)
    quantile = student(_deviations_of_largest(deviations, num_ranks), effective)
    seconds: float = quantile * (variance_of_mean * (1 + 1 / num_others)) ** 0.5
    return seconds


def _deviations_of_largest(deviations: float, num_values: int) -> float:
    """Return the deviations that the largest of many values exceeds as often as the larger of two exceeds these.

    This is Bonferroni's correction: n · P(Z > x) = 2 · P(Z > z), with the leading term exp(−x²/2) of the normal tail,
    gives x² = z² + 2 ln(n/2).
    """
    return sqrt(deviations**2 + 2 * log(num_values / 2))
