"""The reaction of launchers to the end of a rank, and to the owner of the job. Pure.

torchrun ends the other ranks of its host with SIGTERM, and after 30 s with SIGKILL. It may start all ranks again.
mpirun ends the ranks of all hosts, and sends SIGKILL after 5 s. The parent of `torch.multiprocessing.spawn` does as
torchrun, without a restart. Without a launcher nobody ends the other ranks.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple

from lab.simulator.endings import SignalName, terminated
from lab.simulator.processes import OTHER_PID
from lab.simulator.rank import SimulatedRank

if TYPE_CHECKING:
    from lab.simulator.world import World

LAUNCHER_PID = 900
POLL_SECONDS = (0.01, 0.11)  # a launcher looks ten times a second
KILL_SECONDS = {"torchrun": 30.0, "mpirun": 5.0, "spawn": 30.0}
CANCEL_SECONDS = 0.05  # the signal of the owner reaches all ranks within this time
RESTART_SECONDS = (0.1, 1.0)  # from the end of the last rank to the next launch
EXIT_SECONDS = 1.2  # a launcher ends this long after its last rank, if it does not start them again
OTHER_HOSTS_SECONDS = 5.0  # after this time the launchers of other hosts notice that one wants to restart


class LauncherEnd(NamedTuple):
    """The end of a launcher: when, and its exit status."""

    time: float
    status: str


class Launchers:
    """The launchers of one job."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._ending: set[tuple[int, int]] = set()  # by launch and host: a launcher ends the ranks there
        self._cancelled = False
        self.ends: dict[tuple[int, int], LauncherEnd] = {}  # by launch and host
        self.relaunched: dict[int, float] = {}  # launch → when the launchers started its processes again

    @property
    def is_restarting(self) -> bool:
        """True while processes that were started again have not become ranks yet."""
        return not self._cancelled and len(self.relaunched) == len(self._world.launches)

    def kill(self, rank: SimulatedRank) -> None:
        """End the launcher of a rank by SIGKILL; its ranks go on."""
        self.ends[rank.attempt, rank.host] = LauncherEnd(self._world.time, "signal SIGKILL")

    def react_to_end(self, rank: SimulatedRank) -> None:
        """End or restart the other ranks as the launcher of a rank that has ended does."""
        world = self._world
        shape = self._world.shape
        failed = _failed(rank)
        if all(member.ended is not None for member in world.launches[rank.attempt] if member.host == rank.host):
            world.schedule(EXIT_SECONDS, partial(self._exit, rank.attempt, rank.host))
        if failed and shape.launcher != "none" and not self._cancelled:
            hosts = [rank.host] if shape.launcher == "torchrun" else list(range(shape.hosts))
            delay = world.draw.uniform(*POLL_SECONDS)
            for host in hosts:
                world.schedule(delay, partial(self._end_host, rank.attempt, host))
        if not self._may_restart(rank.attempt):
            return
        if failed:
            for host in range(shape.hosts):
                world.schedule(OTHER_HOSTS_SECONDS, partial(self._end_host, rank.attempt, host))
        ranks = world.launches[rank.attempt]
        if all(member.ended is not None for member in ranks) and any(map(_failed, ranks)):
            delay = world.draw.uniform(*RESTART_SECONDS)
            self.relaunched.setdefault(rank.attempt, world.time + delay)
            world.schedule(delay + shape.import_seconds, self._launch)

    def cancel(self, to: Literal["launcher", "ranks"], signal: Literal["SIGTERM", "SIGINT"]) -> None:
        """End the job as its owner does, by a signal to the launchers or to all ranks."""
        world = self._world
        launcher = world.shape.launcher
        self._cancelled = True
        forwards: dict[str, SignalName] = {"torchrun": signal, "spawn": "SIGINT"}
        forwarded = forwards.get(launcher, "SIGTERM")
        is_direct = to == "ranks" or launcher == "none"
        received, sender = (signal, OTHER_PID) if is_direct else (forwarded, LAUNCHER_PID)
        for rank in world.ranks:
            world.schedule(
                world.draw.uniform(0.0, CANCEL_SECONDS), partial(world.processes.signal, rank, received, sender)
            )
        self._kill_later(world.ranks)

    def _end_host(self, attempt: int, host: int) -> None:
        """End the other ranks of a host, once."""
        is_over = len(self._world.launches) > attempt + 1
        if is_over or (attempt, host) in self._ending or (attempt, host) in self.ends:
            return
        self._ending.add((attempt, host))
        ranks = [rank for rank in self._world.launches[attempt] if rank.host == host]
        for rank in ranks:
            self._world.processes.signal(rank, "SIGTERM", LAUNCHER_PID)
        self._kill_later(ranks)

    def _may_restart(self, attempt: int) -> bool:
        return self._world.shape.max_restarts > attempt and not self._cancelled

    def _launch(self) -> None:
        """Start all ranks again, unless the owner has ended the job since the launchers decided to."""
        if not self._cancelled:
            self._world.launch()

    def _exit(self, attempt: int, host: int) -> None:
        """End a launcher whose ranks have all ended, unless it starts them again."""
        if len(self._world.launches) == attempt + 1 and self._world.shape.launcher != "none":
            failed = any(_failed(rank) for rank in self._world.launches[attempt] if rank.host == host)
            if failed and self._may_restart(attempt):
                return
            status = "exit code 1" if failed else "exit code 0"
            self.ends.setdefault((attempt, host), LauncherEnd(self._world.time, status))

    def _kill_later(self, ranks: list[SimulatedRank]) -> None:
        """Send SIGKILL to the ranks that are still alive after the grace period of their launcher."""
        world = self._world
        for rank in ranks:
            seconds = KILL_SECONDS.get(world.shape.launcher, 30.0)
            world.schedule(seconds, partial(world.processes.end, rank, terminated("SIGKILL")))


def _failed(rank: SimulatedRank) -> bool:
    return rank.ending is not None and rank.ending.status != "exit code 0"
