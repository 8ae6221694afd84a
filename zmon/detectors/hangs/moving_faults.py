"""The faults of a job that still moves, but will not end well: its launcher is gone, or a rank is a step off."""

from __future__ import annotations

from collections.abc import Iterator

from zmon.detectors.endings.ends import Ends, Limits
from zmon.detectors.endings.launcher import launcher_gone
from zmon.detectors.hangs.sequence_lag import sequence_lag
from zmon.schema.finding import Finding
from zmon.schema.job_snapshot import Snapshot


def moving_fault(snapshot: Snapshot, detector: str, limits: Limits) -> Iterator[Finding]:
    """Yield the first of these warnings that applies, if any."""
    finding = launcher_gone(Ends(snapshot, detector, limits)) or sequence_lag(snapshot, detector, limits)
    if finding is not None:
        yield finding
