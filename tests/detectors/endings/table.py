"""Every way in which a process of a job can end, when, and under which launcher, with the expected diagnosis.

`docs/endings.md` is generated from these rows, and `test_table.py` judges the ranks that each row leaves behind. The
times between a death and its consequences are those of real gloo jobs on one host: a peer raises 40 ms after its
neighbour's process has ended, torchrun looks for dead ranks every 0.1 s, and a process needs 0.8 s to end after an
exception.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.build import DISCONNECT, NOW, dead, words
from zmon.schema.rank import EXECUTED, LastWords, RankState

RANK = 1  # the rank that ends first
LAUNCHER_PID, OTHER_PID = 900, 4711
AGO = 3.0  # seconds since this rank began to end
STORE_ERROR = "torch.distributed.DistStoreError"
MESH_ERROR = "Gloo connectFullMesh failed with [gloo/transport/tcp/pair.cc:152] timed out, remote=[10.0.0.2]:5826$0"
STORE_TIMEOUT = "The client socket has timed out after 60000ms while trying to connect to (10.0.0.1, 29500)."


@dataclass(frozen=True)
class Launcher:
    """A way to start ranks, and what it does to the survivors once a rank has failed."""

    name: str
    restarts: int | None = None
    survivors: str | None = None  # the signal that it sends to the survivors


TORCHRUN = Launcher("torchrun", 0, "SIGTERM")
LAUNCHERS = (
    TORCHRUN,
    Launcher("torchrun with restarts", 2, "SIGTERM"),
    Launcher("mpirun, srun", None, "SIGTERM"),
    Launcher("multiprocessing.spawn", None, "SIGTERM"),
    Launcher("none", None, None),
)
WHENS = ("init", "training", "evaluation", "last step", "teardown")


@dataclass(frozen=True)
class Way:
    """One way in which one rank ends by itself, and the diagnosis that is due."""

    name: str
    cause: str
    status: str
    says: tuple[str, str, str] | None = None  # kind, type and message of its last words
    fails: bool = True  # the launcher ends the survivors
    slow: bool = False  # the process of the rank needs 0.8 s to end after its last words
    in_collective: bool | None = None
    at_the_end: str | None = "warning"  # severity after all others have finished; None: quiet


ERROR = ("exception", "builtins.ValueError", "bad batch 17")
STORAGE = ("exception", "builtins.RuntimeError", "storage client: read error: connection reset by peer")
REFUSED = ("exception", "builtins.ConnectionError", "connection refused by 10.0.0.7:9000")
WAYS = (
    Way("the script returns", "uneven_end", "exit code 0", ("exit", "", ""), fails=False, slow=True, at_the_end=None),
    Way("`sys.exit(0)`", "uneven_end", "exit code 0", ("exit", "", ""), fails=False, slow=True, at_the_end=None),
    Way("`os._exit(0)`", "uneven_end", "exit code 0", fails=False, at_the_end=None),
    Way("`exec` of another program", "uneven_end", EXECUTED, fails=False, at_the_end=None),
    Way("an exception", "rank_exited", "exit code 1", ERROR, slow=True, at_the_end="critical"),
    Way("a storage client's RuntimeError", "rank_exited", "exit code 1", STORAGE, slow=True, in_collective=False,
        at_the_end="critical"),
    Way("a storage client's ConnectionError", "rank_exited", "exit code 1", REFUSED, slow=True, in_collective=False,
        at_the_end="critical"),
    Way("`sys.exit(3)`", "rank_exited", "exit code 3", ("exception", "builtins.SystemExit", "3"), slow=True,
        at_the_end="critical"),
    Way("`os._exit(3)`", "rank_exited", "exit code 3"),
    Way("`os.abort`, a C++ exception", "rank_exited", "signal SIGABRT"),
    Way("a segmentation fault", "rank_exited", "signal SIGSEGV"),
    Way("SIGKILL to one rank, out of memory", "rank_exited", "signal SIGKILL"),
    Way("SIGTERM to one rank", "rank_exited", "signal SIGTERM", ("signal", "SIGTERM", 'File "train.py", line 12'),
        at_the_end=None),
)  # fmt: skip


def seen_dead(
    rank: int, began: float, gone: float, status: str | None, last_words: LastWords | None, **changes
) -> RankState:
    """Return a rank that began to end `began` seconds ago and was seen dead `gone` seconds ago."""
    fields = {"last_words": last_words, "last_words_seconds": began if last_words else None}
    return dead(rank, gone, **{"exit_status": status, **fields, "step_seconds": AGO + 0.02, **changes})


def _survivor(rank: int, delay: float, when: str, launcher: Launcher, failed: bool, **changes) -> RankState:
    """Return another rank, whose neighbour's process ended `delay` seconds after the event."""
    broken = AGO - delay - 0.04 - rank * 0.003
    ended_by = launcher.survivors if failed else None
    status = f"signal {ended_by}" if ended_by else "exit code 1"
    if when == "init":  # the rank waits for the others at the store, and not in a collective
        if ended_by:
            last_words = words("signal", "SIGTERM", 'File "train.py", line 3', NOW - broken + 0.06)
            last_words = replace(last_words, sender_pid=LAUNCHER_PID)
            return seen_dead(rank, broken - 0.06, broken - 0.1, status, last_words, **changes)
        last_words = words("exception", STORE_ERROR, STORE_TIMEOUT, NOW - broken)
        return seen_dead(rank, broken, broken - 0.8, status, last_words, **changes)
    last_words = replace(words("exception", "builtins.RuntimeError", DISCONNECT, NOW - broken), in_collective=True)
    return seen_dead(rank, broken, broken - (0.1 if ended_by else 0.8), status, last_words, **changes)


def ranks_after(way: Way, when: str, launcher: Launcher) -> list[RankState]:
    """Return the four ranks of a job in which one has ended in this way."""
    delay = 0.8 if way.slow else 0.0
    last: LastWords | None = None
    if way.says is not None:
        sender_pid = OTHER_PID if way.says[0] == "signal" else None
        last = replace(words(*way.says, NOW - AGO), in_collective=way.in_collective, sender_pid=sender_pid)
    activity = {"evaluation": "eval", "init": "init"}.get(when, "train")
    place = {"max_restarts": launcher.restarts, "activity": activity, "steps": 0 if when == "init" else 118}
    if when == "teardown":
        done = way.says is None or way.says[0] != "exception"
        activity = "done" if done else "train"
        first = seen_dead(RANK, AGO, AGO - delay, way.status, last, **{**place, "activity": activity})
        last_words = words("exit", "", "", NOW - AGO - 0.5)
        finished = {**place, "activity": "done", "lease_seconds": None}
        others = (seen_dead(r, AGO + 0.5, AGO - 0.2, "exit code 0", last_words, **finished) for r in (0, 2, 3))
        return [first, *others]
    first = seen_dead(RANK, AGO, AGO - delay, way.status, last, **place)
    return [first, *(_survivor(r, delay, when, launcher, way.fails, **place) for r in (0, 2, 3))]


def expected(way: Way, when: str, launcher: Launcher) -> tuple[str | None, str | None, tuple[int, ...]]:
    """Return cause, severity and culprits; all empty if the end is quiet."""
    if when == "teardown" and way.at_the_end is None:
        return None, None, ()
    may_restart = launcher.restarts is not None and launcher.restarts > 0
    severity = "warning" if may_restart else "critical"
    if when == "teardown" and way.at_the_end == "warning":
        severity = "warning"
    return way.cause, severity, (RANK,)
