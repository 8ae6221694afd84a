"""The hold on new culprits: they replace the published ones only after they have been reported for some seconds.

Ranks that wait for each other may alternate as culprits. When a cut link heals, ranks are out of their collective for a
moment, and none of them is to blame.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from zmon.schema.finding import Finding

HOLD_SECONDS = 3.0  # several passes; a rank that others really wait for is reported in each of them
# Causes that follow from the phase that a rank is in. A rank whose hang has just ended goes through other phases, so
# for these the cause is held like the culprits.
_HANGS = {"compute_hang", "input_stall", "lease_overrun"}


@dataclass(frozen=True, slots=True)
class _Candidates:
    """Culprits that are reported and not published yet. Times are in unix seconds."""

    culprits: tuple[int | str, ...]
    since: float  # the first report
    last_report: float


class CulpritHold:
    """The culprits that wait to be published, by id of the finding."""

    def __init__(self) -> None:
        self._candidates: dict[str, _Candidates] = {}

    def record(self, current: Finding, later: Finding, now: float) -> bool:
        """Record a later report, and return True if its culprits may be published.

        Culprits may be published if they are the same as before, if none is published yet, or after 3 s of reports.
        """
        culprits, published = later.culprits, current.culprits
        if {later.cause, current.cause} <= _HANGS:
            culprits, published = (*culprits, later.cause), (*published, current.cause)
        known = self._candidates.pop(current.id, None)
        if not current.culprits or culprits == published:
            return True
        since = now
        if known is not None and known.culprits == culprits and now - known.last_report <= HOLD_SECONDS:
            since = known.since
        self._candidates[current.id] = _Candidates(culprits, since, now)
        return now - since >= HOLD_SECONDS

    def forget(self, finding_id: str) -> None:
        """Forget the candidates of a finding that has resolved."""
        self._candidates.pop(finding_id, None)

    def move_times(self, seconds: float) -> None:
        """Move the times of reports, because the clock was set by these seconds."""
        self._candidates = {
            finding_id: replace(held, since=held.since + seconds, last_report=held.last_report + seconds)
            for finding_id, held in self._candidates.items()
        }
