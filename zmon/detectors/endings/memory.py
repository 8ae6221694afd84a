"""Find out whether the kernel killed a rank, or a process of the rank, because memory ran out.

There are three sources, the most certain first. The kernel's log names the process. The control group of the rank
counts the processes that were killed in it. The host counts all killed processes, which is no proof, so the text says
"probably".
"""

from __future__ import annotations

import re

from zmon.job.rank_end import KILLED_STATUS
from zmon.schema.host import HostWindow, increase
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.rank import RankState

_GIBIBYTE = 1 << 30
_KILLED = re.compile(r"Killed process (\d+) ", re.IGNORECASE)  # mm/oom_kill.c, __oom_kill_process


def out_of_memory(snapshot: Snapshot, state: RankState) -> str | None:
    """Return one line with the proof that the rank ran out of memory, or None if no source says so."""
    window = next((window for window in snapshot.hardware if window.host == state.host), None)
    if window is None:
        return None
    return _by_log(window, state) or _by_group(window, state) or _by_host(window, state)


def _by_log(window: HostWindow, state: RankState) -> str | None:
    """Return the line of the kernel's log about the rank's process."""
    for event in reversed(window.now.kernel.events if window.now.kernel else ()):
        killed = _KILLED.search(event.text) if event.kind == "oom" else None
        if killed and int(killed[1]) == state.pid and event.time >= state.start:  # both by the host's own clock
            return f"out of memory, by the kernel's log: {event.text}"
    return None


def _by_group(window: HostWindow, state: RankState) -> str | None:
    """Return what the control group of the rank counted in the last minute."""
    kills_before = {group.path: group.oom_kills for group in window.before.cgroups or ()}
    for group in window.now.cgroups or ():
        killed = increase(kills_before.get(group.path), group.oom_kills)
        if killed and (state.job_id, state.rank) in group.ranks:
            limit_bytes = group.memory_limit_bytes
            limit = "" if limit_bytes is None else f" (limit {limit_bytes / _GIBIBYTE:.2f} GiB)"
            return f"out of memory: the kernel killed {_processes(killed)} in its control group {group.path}{limit}"
    return None


def _by_host(window: HostWindow, state: RankState) -> str | None:
    """Return what the host counted in the last minute, if the rank may have been killed without last words."""
    before, now = window.before.load, window.now.load
    if state.exit_status not in (None, KILLED_STATUS) or state.last_words is not None or not before or not now:
        return None
    killed = increase(before.oom_kills, now.oom_kills)
    if not killed:
        return None
    return f"probably out of memory: the kernel killed {_processes(killed)} on {state.host} in the last minute"


def _processes(number: int) -> str:
    return "1 process" if number == 1 else f"{number} processes"
