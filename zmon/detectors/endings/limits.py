"""The thresholds of the stall detector about ranks that have ended, in seconds."""

from __future__ import annotations

from dataclasses import dataclass

from zmon.schema.thresholds import Thresholds


@dataclass(frozen=True)
class EndLimits(Thresholds):
    """The waits before an end is judged, and the rules of restarts."""

    # The wait after a death before the dead ranks are compared. Peers die of a broken connection within 50 ms, and the
    # launcher ends the other ranks within 200 ms.
    settle_seconds: float = 0.5
    # The wait for a culprit while some ranks have died of broken connections and others live. The launcher ends the
    # others within this time, and their last words then show what happened.
    rest_seconds: float = 5.0
    # No stall is reported for this long after a rank of a cancelled job has ended. torchrun gives its ranks 30 s before
    # it kills them.
    ending_seconds: float = 60.0
    # The time in which a launcher that has restarts left should have restarted the job. Until then the finding is a
    # warning, afterwards it is critical.
    restart_seconds: float = 30.0
    # The finding stays a warning for this long after the launcher has started its processes again. They import torch
    # first, which takes minutes from a slow file system. The value is the shortest lease that a start learns.
    start_seconds: float = 120.0
    # The silence of an agent after which its host counts as lost if all ranks on other hosts died of broken
    # connections.
    lost_seconds: float = 5.0
    # A launcher that supervises its ranks is reported as gone after this time. A job that ends as a whole ends within
    # it.
    launcher_seconds: float = 5.0
    # The number of starts that failed one after the other without progress. A second start may fail because the host,
    # the port or the storage was not ready again; a third one fails for the same reason as the first.
    num_loop_starts: int = 3
