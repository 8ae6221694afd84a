"""The end of one launch of a job, whatever ended it: its outcome, and what a person asks about it. Frozen data only.

`zmon/job/outcome.py` decides the outcome. Times are unix seconds by the hub's clock. None means unknown.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from zmon.format import NONE, duration

DONE, FAILED, CANCELLED, NODE_LOST, UNKNOWN_END = "done", "failed", "cancelled", "node_lost", "unknown"
OUTCOMES = (DONE, FAILED, CANCELLED, NODE_LOST, UNKNOWN_END)  # of this version; a newer zmon may have others
LATE_SECONDS = 60.0  # an end that the hub records later than this is marked: nobody saw it in time


class Restart(msgspec.Struct, frozen=True):
    """The launch that followed an end, started by the same launcher."""

    attempt: int
    first_step: int | None = None  # the step that it resumed from; None: it has finished no step yet
    seconds: float | None = None  # from the end to its first finished step


class EndedLaunch(msgspec.Struct, frozen=True, kw_only=True):
    """The end of one launch. Stored on disk under the names of these fields."""

    id: str  # the same in every hub that records this end
    job_id: str
    attempt: int
    world_size: int
    hosts: tuple[str, ...]
    labels: Mapping[str, str]
    owner: int | None  # uid of the user to whom the job belongs
    began: float
    ended: float
    recorded: float  # when the hub recorded it
    outcome: str  # one of OUTCOMES
    summary: str
    step: int  # the furthest step of its ranks
    steps: int  # the number of steps that it finished
    first_step: int | None  # None: it has finished no step
    restarts: int  # launches before this one by the same launcher
    max_restarts: int | None  # None: its launcher does not restart it
    # Of a failure; empty or None otherwise
    cause: str = ""  # as of the finding
    severity: str = ""
    ranks: tuple[int, ...] = ()  # the culprits; empty if none is known
    culprit_hosts: tuple[str, ...] = ()
    finding: str = ""  # its id
    runbook: str = ""
    next_step: str = ""
    # The account of the job up to then: seconds by cause, over all of its launches
    time: Mapping[str, float] = {}
    goodput_ratio: float | None = None
    restart: Restart | None = None  # None: no launch of the same launcher has followed

    @property
    def seconds(self) -> float:
        """The duration of the launch."""
        return self.ended - self.began

    @property
    def steps_text(self) -> str:
        """The steps that the launch finished: `600 to 1,200`."""
        if self.first_step is None:
            return NONE
        return f"{self.first_step:,} to {self.first_step + self.steps - 1:,}"

    @property
    def reason(self) -> str:
        """The reason of the end, and what followed."""
        late = "told late: the hub was down, or no agent answered it" if self.is_late else ""
        return "; ".join(part for part in (self.summary, self._restart_text(), late) if part)

    def _restart_text(self) -> str:
        again = self.restart
        if again is None:
            return ""
        total = "" if self.max_restarts is None else f" of {self.max_restarts}"
        text = f"restart {self.restarts + 1}{total}"
        if again.first_step is None:
            return f"{text} has finished no step yet"
        return f"{text} resumed from step {again.first_step:,} after {duration(again.seconds)}"

    @property
    def is_late(self) -> bool:
        """True if the hub recorded the end long after it: the hub was down, or no agent answered it."""
        return self.recorded - self.ended > LATE_SECONDS
