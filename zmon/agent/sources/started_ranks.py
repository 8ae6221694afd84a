"""Decide whether a job of one rank is over, because it has started the ranks of another job and only waits for them.

A script may try its model in its own process, and then call `torch.multiprocessing.spawn`, a notebook's launcher or
torchrun. Its first launch is over while processes below it are ranks and it does nothing in torch itself. So a rank
that evaluates in a process beside its training is not over: it goes on in torch at once. A rank with peers is never
over, because they wait for it. Processes that join no process group, such as loader workers, are no ranks.

The kernel and the boxes show all this. Where they do not, as in another PID namespace, a launch is not over.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from zmon.agent.sources.process_table import ProcessTable, boot_ticks, ticks_to_ns
from zmon.box.reader import Now
from zmon.process import ProcessId, ProcessKey

_TICK_NS = ticks_to_ns(1)  # the kernel rounds the start of a process down to a tick


class _Newest(NamedTuple):
    """The newest process that a rank has started and that became a rank, or launched one."""

    ticks: int  # its start in clock ticks after boot
    latest_start_ns: int  # the latest time at which it may have started
    num_steps: int  # that the rank had finished when the agent first saw that process


class StartedRanks:
    """The ancestors of the process of one rank, and the ranks that it has started itself."""

    def __init__(self) -> None:
        self.ancestors: dict[ProcessKey, int] = {}  # see ProcessTable.ancestors
        self.process = ProcessKey(0, 0)  # of the rank; zeros: unknown
        self._newest: _Newest | None = None
        self._all_finished = False  # True: the ranks that it has started have all finished

    def identify(self, process: ProcessId, processes: ProcessTable) -> None:
        """Look up the ancestors of the rank, while it lives."""
        self.process = process.key
        self.ancestors = processes.ancestors(process)

    def note(self, newest: Mapping[ProcessKey, int], unfinished: Collection[ProcessKey], now: Now, now_ns: int) -> None:
        """Note the newest process that the rank has started and that became a rank, or launched one.

        `newest`: by ancestor of a rank, the start of that process. `unfinished`: the ancestors of ranks that have not
        finished.
        """
        ticks = newest.get(self.process)
        if ticks is None:
            return
        self._all_finished = self.process not in unfinished
        if self._newest is None or ticks > self._newest.ticks:
            self._newest = _Newest(ticks, latest_start_ns(ticks, now_ns), _num_steps(now))

    def has_superseded(self, now: Now, alive: bool) -> bool:
        """Return True if the rank has done nothing in torch since it started the newest rank.

        A rank that fails after its ranks is superseded, too: it raises their error. If all its ranks have ended well,
        its failure is its own.
        """
        if self._newest is None:
            return False
        if now.activity == "done":  # it may have ended since then
            return _num_steps(now) <= self._newest.num_steps
        return now.since <= self._newest.latest_start_ns and (alive or not self._all_finished)


def latest_start_ns(ticks: int, now_ns: int) -> int:
    """Return the latest time at which a process may have started, given its start in clock ticks after boot."""
    return now_ns - ticks_to_ns(boot_ticks() - ticks) + 2 * _TICK_NS


def _num_steps(now: Now) -> int:
    """Return the number of steps that a rank has finished."""
    return now.step - (now.activity == "train")  # without the current one
