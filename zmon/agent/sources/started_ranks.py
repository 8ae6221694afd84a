"""Decide whether a job of one rank is over, because it has started the ranks of another job and only waits for them.

A script may try its model in its own process, and then call `torch.multiprocessing.spawn`, a notebook's launcher or
torchrun. Its first launch is over while processes below it are ranks and it does nothing in torch itself. So a rank
that evaluates in a process beside its training is not over: it goes on in torch at once. A rank with peers is never
over, because they wait for it. Processes that join no process group, such as loader workers, are no ranks.

The kernel and the boxes show all this. Where they do not, as in another PID namespace, a launch is not over.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from zmon.agent.sources.process_table import ProcessTable, boot_ticks, ticks_to_ns
from zmon.box.identity import Identity
from zmon.box.reader import Now
from zmon.process import ProcessId, ProcessKey

_TICK_NS = ticks_to_ns(1)  # the kernel rounds the start of a process down to a tick


class Rank(Protocol):
    """The part of a rank that this module uses."""

    identity: Identity

    @property
    def started_ranks(self) -> StartedRanks: ...
    @property
    def has_joined(self) -> bool: ...
    @property
    def has_finished(self) -> bool: ...
    def note_started(self, newest: Mapping[ProcessKey, int], unfinished: Collection[ProcessKey]) -> None: ...


class _Newest(NamedTuple):
    """The newest process that a rank has started and that became a rank, or launched one."""

    ticks: int  # its start in clock ticks after boot
    latest_ns: int  # the latest time at which it may have started
    steps: int  # steps that the rank had finished when the agent first saw that process


class StartedRanks:
    """The processes above one rank, and the ranks that it has started itself."""

    def __init__(self) -> None:
        self.above: dict[ProcessKey, int] = {}  # see ProcessTable.above
        self.process = ProcessKey(0, 0)  # of the rank; zeros: unknown
        self._newest: _Newest | None = None
        self._all_finished = False

    def identify(self, process: ProcessId, processes: ProcessTable) -> None:
        """Look up the processes above the rank, while it lives."""
        self.process = process.key
        self.above = processes.above(process)

    def note(self, newest: Mapping[ProcessKey, int], unfinished: Collection[ProcessKey], now: Now, now_ns: int) -> None:
        """Note the newest process that the rank has started.

        `newest`: the start of that process, by process above a rank. `unfinished`: the processes above ranks that have
        not finished.
        """
        ticks = newest.get(self.process, 0)
        if ticks:
            self._all_finished = self.process not in unfinished
        if ticks and (self._newest is None or ticks > self._newest.ticks):
            self._newest = _Newest(ticks, latest_start_ns(ticks, now_ns), _num_steps(now))

    def has_superseded(self, now: Now, alive: bool) -> bool:
        """Return True if the rank has done nothing in torch since it started the newest rank.

        A rank that fails after its ranks is superseded, too: it raises their error. If all its ranks have ended well,
        its failure is its own.
        """
        if self._newest is None:
            return False
        if now.activity == "done":  # it may have ended since then
            return _num_steps(now) <= self._newest.steps
        return now.since <= self._newest.latest_ns and (alive or not self._all_finished)


def note_started_ranks(ranks: Sequence[Rank]) -> None:
    """Note for each rank of a host which ranks it has started."""
    alone = [rank for rank in ranks if rank.identity.world_size == 1]
    processes = {rank.started_ranks.process for rank in alone}
    below = [rank for rank in ranks if not processes.isdisjoint(rank.started_ranks.above) and rank.has_joined]
    newest = dict(sorted(item for rank in below for item in rank.started_ranks.above.items()))
    unfinished = {process for rank in below if not rank.has_finished for process in rank.started_ranks.above}
    for rank in alone:
        rank.note_started(newest, unfinished)


def latest_start_ns(ticks: int, now_ns: int) -> int:
    """Return the latest time at which a process may have started, given its start in clock ticks after boot."""
    return now_ns - ticks_to_ns(boot_ticks() - ticks) + 2 * _TICK_NS


def _num_steps(now: Now) -> int:
    return now.step - (now.activity == "train")  # without the current one
