"""Check a process before it is ended, and send it the signal by a pidfd, which reaches no other process.

The pidfd of a process is opened first, and its files in /proc are read afterwards. While the pidfd shows that the
process lives, no other process has its number, so all that was read is about this process. Sources: pidfd_open(2),
pidfd_send_signal(2) and proc(5).
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from zmon.agent.acts.target import RankTarget
from zmon.agent.process_work import wait_channel
from zmon.agent.sources.freezer import is_frozen
from zmon.agent.sources.reading import text_of
from zmon.process import ExitWatch, ProcessStat, process_stat, stat_in

PROC = Path("/proc")
END_SECONDS = 1.0  # the kernel needs milliseconds to end a process, and longer if it has much memory
STOPPED = "T"  # by a signal, as Ctrl-Z sends it (proc(5))
_TRACED, _BLOCKED = "t", "D"  # further states of a process
# A thread that reads from a disk is in state D for some milliseconds, so only a thread that stays in it is blocked.
_LOOKS, _LOOK_SECONDS = 4, 0.05
_MAX_ANCESTORS = 64
_THREAD = re.compile(r"^State:\s+(\w).*?^TracerPid:\s+(\d+)$.*?^Uid:\s+([\d\s]+?)$", re.M | re.S)
# Healers: programs that restart ranks on their own, by what they leave in the environment of a rank. Nothing is done to
# their jobs, because two healers would end a job again and again. Each variable was looked up in the source of its
# healer: torchft 0.2.0 (manager.py, torchx.py), nvidia-resiliency-ext 0.4.1 (fault_tolerance/data.py and launcher.py),
# dlrover 0.6.1 (its constants and its elastic_run) and horovod 0.28.1 (runner/gloo_run.py). The in-process restart of
# nvidia-resiliency-ext sets no variable, so it is not noticed.
_HEALERS: Mapping[bytes, str] = {  # by the first bytes of a variable, `NAME=value`
    b"TORCHFT_": "torchft",  # TORCHFT_LIGHTHOUSE, which its manager needs, and its timeouts
    b"FT_LAUNCHER_IPC_SOCKET=": "NVIDIA's resiliency extension (ft_launcher)",
    b"FT_RANK_MONITOR_IPC_SOCKET=": "NVIDIA's resiliency extension (ft_launcher)",
    b"DLROVER_MASTER_ADDR=": "DLRover",
    b"HOROVOD_ELASTIC=": "Horovod Elastic",
}


class Refused(Exception):
    """The act is refused, and nothing is done. The message is one line with the reason."""


class _Thread(NamedTuple):
    """The facts about one thread that /proc shows."""

    state: str
    tracer: int  # pid; 0: none
    uids: frozenset[int]  # real, effective, saved, and that for files


@dataclass(frozen=True)
class Facts:
    """A process at one moment."""

    stat: ProcessStat
    threads: dict[int, _Thread]  # by thread id

    @property
    def blocked(self) -> frozenset[int]:
        """The threads in uninterruptible sleep."""
        return frozenset(number for number, thread in self.threads.items() if thread.state == _BLOCKED)


class HeldProcess:
    """A process that is held by a pidfd."""

    def __init__(self, pid: int, what: str, proc: Path = PROC, sleep: Callable[[float], None] = time.sleep) -> None:
        """Open the pidfd. `what` names the process in a line, such as "rank 3 of train". Raises Refused."""
        self.pid, self.what = pid, what
        self._proc, self._folder, self._sleep = proc, proc / str(pid), sleep
        if pid in protected_pids(proc):
            raise Refused(f"process {pid} is the first one, the agent itself, or one that the agent runs under")
        try:
            self._watch = ExitWatch(pid)
        except OSError as error:
            raise Refused(f"{what} has ended: process {pid} cannot be opened ({error.strerror})") from error

    def __enter__(self) -> HeldProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._watch.close()

    def ended(self, seconds: float = 0.0) -> bool:
        """Return True if the process ends within this time."""
        return self._watch.ended(seconds)

    def facts(self) -> Facts:
        """Return what /proc shows of the process now. Raises Refused if the process has ended or is hidden."""
        stat = stat_in(self._folder)
        threads = dict(self._threads())
        if self._watch.ended():
            raise Refused(f"{self.what} has ended")
        if stat is None or self.pid not in threads:
            raise Refused(f"process {self.pid} is hidden from the agent: it needs CAP_SYS_PTRACE")
        return Facts(stat, threads)

    def _threads(self) -> Iterator[tuple[int, _Thread]]:
        try:
            numbers = [int(path.name) for path in (self._folder / "task").iterdir()]
        except (OSError, ValueError):
            return
        for number in numbers:
            if match := _THREAD.search(text_of(self._folder / "task" / str(number) / "status")):
                yield number, _Thread(match[1], int(match[2]), frozenset(map(int, match[3].split())))

    def check(self, owner: int, start_ticks: int | None) -> Facts:
        """Return the facts. Raises Refused unless the process belongs to this user and a signal can end it."""
        facts = self.facts()
        if start_ticks is None or facts.stat.start_ticks != start_ticks:
            raise Refused(f"process {self.pid} is not {self.what}: it started at another time, or that is unknown")
        uids = frozenset(uid for thread in facts.threads.values() for uid in thread.uids)
        if uids != {owner}:
            others = ", ".join(map(str, sorted(uids - {owner})))
            raise Refused(f"process {self.pid} runs as uid {others}, and the box is of uid {owner}")
        if any(thread.tracer or thread.state == _TRACED for thread in facts.threads.values()):
            raise Refused(f"{self.what} is traced: a debugger holds process {self.pid}, so a person is at work there")
        self._check_not_blocked(facts)
        self._check_permission(owner)
        return facts

    def _check_not_blocked(self, facts: Facts) -> None:
        """Raise Refused if a thread stays in uninterruptible sleep, where a signal has no effect."""
        blocked = facts.blocked
        for _ in range(_LOOKS - 1):
            if not blocked:
                return
            self._sleep(_LOOK_SECONDS)
            blocked &= self.facts().blocked
        if blocked and is_frozen(self._folder, _BLOCKED):
            raise Refused(f"{self.what} is frozen by its control group (docker pause): a kill waits until it is thawed")
        if blocked:
            channel = wait_channel(self._folder / "task" / str(min(blocked))) or "an unknown place"
            raise Refused(
                f"{self.what} is in uninterruptible sleep (state D) in {channel}, where a kill does nothing: look at "
                f"the disk, the file system or the device that process {self.pid} waits for"
            )

    def _check_permission(self, owner: int) -> None:
        try:
            self._watch.send(0)
        except ProcessLookupError:
            raise Refused(f"{self.what} has ended") from None
        except PermissionError:
            raise Refused(f"the agent may not end processes of uid {owner}: CAP_KILL (docs/act.md)") from None

    def check_healer(self) -> None:
        """Raise Refused if the job of the process has another healer, or if that is unknown."""
        try:
            environ = (self._folder / "environ").read_bytes()
        except OSError as error:
            raise Refused(
                f"it is not known whether the job has another healer: the environment of process {self.pid} cannot be "
                f"read ({error.strerror})"
            ) from error
        if not environ or self._watch.ended():
            raise Refused(f"it is not known whether the job has another healer: process {self.pid} has no environment")
        check_environment(environ)

    def send(self, number: int) -> None:
        """Send a signal. Raises Refused if the process has ended, or if the agent may not send it."""
        try:
            self._watch.send(number)
        except OSError as error:
            raise Refused(f"the signal to process {self.pid} failed: {error.strerror}") from error

    def ancestors(self) -> list[tuple[int, ProcessStat]]:
        """Return the ancestors with their pids, the nearest first."""
        return _ancestors(self.pid, self._proc)


def check_environment(environ: bytes) -> None:
    """Raise Refused if the content of /proc/<pid>/environ has a variable of another healer."""
    for variable in environ.split(b"\0"):
        for start, name in _HEALERS.items():
            if variable.startswith(start):
                raise Refused(f"{name} heals this job: zmon only observes it")


def protected_pids(proc: Path = PROC) -> frozenset[int]:
    """Return the processes that the agent never ends: the first process, the agent itself, and its ancestors."""
    itself = os.getpid()
    return frozenset((0, 1, itself, *(pid for pid, _ in _ancestors(itself, proc))))


def _ancestors(pid: int, proc: Path) -> list[tuple[int, ProcessStat]]:
    above: list[tuple[int, ProcessStat]] = []
    stat = process_stat(pid, proc)
    while stat is not None and stat.parent > 0 and len(above) < _MAX_ANCESTORS:
        parent = stat.parent
        stat = process_stat(parent, proc)
        if stat is not None:
            above.append((parent, stat))
    return above


def hold_rank(rank: RankTarget, refreshed: Callable[[], RankTarget]) -> HeldProcess:
    """Open the process of a rank, check that it holds the lock of the box and has the box's owner, and return it.

    `refreshed` returns the rank as it is now. Raises Refused.
    """
    what = f"rank {rank.rank} of {rank.job}"
    if rank.holder is None:
        raise Refused(f"{what} has ended")
    if rank.holder == 0:
        raise Refused(f"{what} is in another PID namespace: run the agent in that of the host (hostPID)")
    held = HeldProcess(rank.holder, what)
    try:
        current = refreshed()
        if current.holder != held.pid:
            raise Refused(f"{what} has ended: process {held.pid} does not hold the lock of its box any more")
        held.check(current.owner, current.start_ticks)
    except BaseException:
        held.close()
        raise
    return held
