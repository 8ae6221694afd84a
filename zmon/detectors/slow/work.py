"""Take out of the self times what a rank needs because it has more work than the others. Pure.

Work is measured in tokens, lookups, samples and bytes of all-to-all. All times in seconds, by rank and step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

import numpy as np

from zmon.job.columns import Values, by_rank, values
from zmon.schema.aligned_step import AlignedStep
from zmon.stats import slope

_OP = "all_to_all"  # the bytes of other ops depend on a rank's role, not on its work
_MANY = 64  # enough ranks, and enough steps, to estimate the time per unit of work


def measures_of_work(steps: Sequence[AlignedStep]) -> Iterator[Sequence[Values | None]]:
    """Yield the measures of work by step and rank: tokens, lookups, samples, and bytes of all-to-all.

    A measure counts if at least half of the steps have it and it differs between ranks. It is None in a step without
    it.
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

    A rank with less work gets it added. The time per unit of work is the slope of least absolute deviations of self
    time on work, both beyond the median rank, over all steps and ranks (`zmon.stats.slope`). It is at most the self
    time of the median rank divided by its work, so that a little more work does not excuse a rank that takes twice as
    long.
    """
    nothing = np.zeros(len(seconds))
    amounts = by_rank([nothing if row is None else row for row in work])
    beyond = amounts - np.median(amounts, axis=0)
    later = seconds - np.median(seconds, axis=0)
    stride = seconds.size // _MANY**2 + 1
    points = zip(beyond[:, ::stride].ravel().tolist(), later[:, ::stride].ravel().tolist(), strict=True)
    typical = median(float(np.median(row)) for row in work if row is not None)
    max_seconds = float(np.median(np.median(seconds, axis=0))) / typical if typical else 0.0
    result: Values = seconds - min(max(slope(points) or 0.0, 0.0), max_seconds) * beyond
    return result
