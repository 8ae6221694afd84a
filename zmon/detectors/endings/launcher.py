"""Report a launcher that is gone, although it has to supervise its ranks (torchrun), or that took its ranks along.

A shell or nohup that starts ranks and exits is no fault, so only the launchers count that restart ranks.
"""

from __future__ import annotations

from collections.abc import Sequence

from zmon.detectors.endings.job_end import JobEnd
from zmon.detectors.endings.limits import EndLimits
from zmon.detectors.new_finding import new_finding
from zmon.detectors.wording import ranks_on
from zmon.format import counted
from zmon.job.facts import LOOK_SECONDS, began_to_end
from zmon.job.rank_end import Way, launcher_of
from zmon.job.signals import launcher_pid
from zmon.schema.evidence import StallEvidence
from zmon.schema.finding import Finding
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.names import PROCESS_STATE, STALL
from zmon.schema.rank import RankState

_KILLED = ("signal SIGKILL", "signal SIGSEGV", "signal SIGABRT", "signal SIGBUS")  # no owner ends a job by these
_MAX_PIDS = 8  # ranks of one host; a host seldom has more GPUs


def launcher_took_ranks(end: JobEnd) -> Finding | None:
    """Return a finding if the launcher was killed, and its ranks ended with it as if they had been cancelled."""
    taken_along = [r for r in end.ended_as(Way.CANCELLED, Way.FINISHED) if _outlived_killed_launcher(r)]
    if not taken_along or end.culprits:
        return None
    first = taken_along[0]
    if any(launcher_of(r) == launcher_of(first) and r.stopped_seconds is None for r in end.living):
        return None  # its ranks go on; those of other launchers may wait for them. A stopped one obeys no signal
    name = (first.launcher_status or "").removeprefix("signal ")
    return end.finding(
        cause="launcher_gone",
        summary=f"the launcher (process {launcher_pid(first)} on {first.host}) was ended by {name}, and its "
        f"{counted(len(taken_along), 'rank')} ended with it at step {first.step}",
        detail=f"On {first.host}: `dmesg -T | grep -i 'killed process'` (did the host run out of memory?), "
        "`journalctl --since -10min`. Start the job again from its last checkpoint.",
        confidence=0.8,
        hosts=[first.host],
    )


def _outlived_killed_launcher(state: RankState) -> bool:
    """Return True if the launcher of the rank was killed, and was dead when the rank began to end."""
    launcher_end = -(state.launcher_gone_seconds or 0.0)
    return state.launcher_status in _KILLED and launcher_end <= began_to_end(state).latest + LOOK_SECONDS


def launcher_gone(snapshot: Snapshot, limits: EndLimits) -> Finding | None:
    """Return a warning if a launcher that supervises its ranks has died while they live."""
    orphans = [
        r
        for r in JobEnd(snapshot, limits).living
        if r.max_restarts is not None
        and r.activity != "done"
        and (r.launcher_gone_seconds or 0.0) >= limits.launcher_seconds
    ]
    if not orphans:
        return None
    first = orphans[0]
    gone = max(r.launcher_gone_seconds or 0.0 for r in orphans)
    ended = f" ({first.launcher_status})" if first.launcher_status else ""
    return new_finding(
        snapshot,
        detector=STALL,
        cause="launcher_gone",
        severity="warning",
        proof=PROCESS_STATE,
        hosts=sorted({r.host for r in orphans}),
        seconds_ago=gone,
        confidence=0.95,
        summary=f"the launcher (process {launcher_pid(first)} on {first.host}) ended{ended} {gone:.0f} s ago, and "
        f"{ranks_on(orphans)} go on without it: nothing will restart them, and nothing ends them if one of them fails",
        detail=f"On {first.host}: `dmesg -T | grep -i 'killed process'` and `journalctl --since -1h` show what ended "
        f"it. The ranks may train on. At the next checkpoint end them ({_kill_commands(orphans)}), and start the job "
        "again.",
        evidence=StallEvidence(pids=tuple(r.pid for r in orphans)),
    )


def _kill_commands(orphans: Sequence[RankState]) -> str:
    """Return the command that ends the ranks of the first host, and the place where the other PIDs are."""
    first = [r for r in orphans if r.host == orphans[0].host][:_MAX_PIDS]
    command = f"on {first[0].host}: `kill {' '.join(str(r.pid) for r in first)}`"
    more = "; `evidence.pids` in `zmon status --json` has all" if len(first) < len(orphans) else ""
    return command + more
