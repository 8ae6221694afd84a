"""Subtract from the self times what a rank needs because it has more work than the median rank. Pure.

Work is measured in tokens, lookups, samples and bytes of all-to-all. Times are in seconds. Arrays have a row for each
rank and a column for each step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

import numpy as np

from zmon.job.columns import Values, by_rank, values
from zmon.schema.aligned_step import AlignedStep
from zmon.stats import slope

_OP = "all_to_all"  # the bytes of other ops depend on a rank's role, not on its work
_MAX_POINTS = 64 * 64  # pairs of rank and step that are enough to estimate the time per unit of work


def measures_of_work(steps: Sequence[AlignedStep]) -> Iterator[Sequence[Values | None]]:
    """Yield the measures of work by step and rank: tokens, lookups, samples, and bytes of all-to-all.

    A measure counts if at least half of the steps have it and it differs between ranks. A step without it has None.
    """
    exchanged = [
        values(step.sent_bytes[_OP]) + values(step.received_bytes[_OP]) if _OP in step.sent_bytes else None
        for step in steps
    ]
    columns = [[step.amounts(name) for step in steps] for name in ("tokens", "lookups", "samples")]
    declared = [[None if None in amounts else np.asarray(amounts) for amounts in column] for column in columns]
    for rows in (*declared, exchanged):
        measured = [row for row in rows if row is not None]
        if 2 * len(measured) >= len(steps) and any(row.min() != row.max() for row in measured):
            yield rows


def seconds_without_work(seconds: Values, work: Sequence[Values | None]) -> Values:
    """Return the times without the part that a rank needs because it has more work than the median rank.

    A rank with less work than the median rank gets time added. The time per unit of work is the slope of extra self
    time on extra work over all steps and ranks (least absolute deviations, `zmon.stats.slope`). Extra means relative to
    the median rank. The slope is at most the median self time divided by the median work, so that a little more work
    does not excuse a rank that takes twice as long.
    """
    no_work = np.zeros(len(seconds))
    # In a step without the measure no rank has extra work, so its times stay and it does not count for the slope.
    amounts = by_rank([no_work if row is None else row for row in work])
    extra_work = amounts - np.median(amounts, axis=0)
    extra_seconds = seconds - np.median(seconds, axis=0)
    stride = seconds.size // _MAX_POINTS + 1  # leaves out steps, never ranks
    points = zip(extra_work[:, ::stride].ravel().tolist(), extra_seconds[:, ::stride].ravel().tolist(), strict=True)
    median_work = median(float(np.median(row)) for row in work if row is not None)
    max_seconds_per_unit = float(np.median(np.median(seconds, axis=0))) / median_work if median_work else 0.0
    seconds_per_unit = max(slope(points) or 0.0, 0.0)  # more work saves no time
    result: Values = seconds - min(seconds_per_unit, max_seconds_per_unit) * extra_work
    return result
