"""Every way in which a process of a job can end, when, and under which launcher, with the expected diagnosis.

`docs/endings.md` is generated from these rows, and `test_endings.py` judges the ranks that each row leaves behind. The
times between a death and its consequences are those of real gloo jobs on one host: a peer raises 40 ms after its
neighbour's process has ended, torchrun looks for dead ranks every 0.1 s, and a process needs 0.8 s to end after an
exception.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tests.build import DISCONNECT, NOW, rank_state, waiting, words
from zmon.schema.rank import LastWords, RankState

RANK = 1  # the rank that ends first
LAUNCHER_PID, OTHER_PID = 900, 4711
AGO = 3.0  # seconds since it began to end
STORE_ERROR = "torch.distributed.DistStoreError"
MESH_ERROR = "Gloo connectFullMesh failed with [gloo/transport/tcp/pair.cc:152] timed out, remote=[10.0.0.2]:5826$0"
STORE_TIMEOUT = "The client socket has timed out after 60000ms while trying to connect to (10.0.0.1, 29500)."


@dataclass(frozen=True)
class Launcher:
    """A way to start ranks, and what it does to the survivors once a rank has failed."""

    name: str
    restarts: int | None = None
    survivors: str | None = None  # the signal that it sends them


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
    cause: str | None  # None: quiet
    status: str | None  # None: unknown, as its process still runs
    says: tuple[str, str, str] | None = None  # kind, type and message of its last words
    fails: bool = True  # the launcher ends the survivors
    slow: bool = False  # its process needs 0.8 s to end after its last words
    in_collective: bool | None = None
    at_the_end: str | None = "warning"  # severity after all others have finished; None: quiet


ERROR = ("exception", "builtins.ValueError", "bad batch 17")
STORAGE = ("exception", "builtins.RuntimeError", "storage client: read error: connection reset by peer")
REFUSED = ("exception", "builtins.ConnectionError", "connection refused by 10.0.0.7:9000")
WAYS = (
    Way("the script returns", "uneven_end", "exit code 0", ("exit", "", ""), fails=False, slow=True, at_the_end=None),
    Way("`sys.exit(0)`", "uneven_end", "exit code 0", ("exit", "", ""), fails=False, slow=True, at_the_end=None),
    Way("`os._exit(0)`", "uneven_end", "exit code 0", fails=False, at_the_end=None),
    Way("`exec` of another program", "rank_exited", None, fails=False),
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


def _dead(rank: int, began: float, gone: float, status: str, last_words: LastWords | None, **changes) -> RankState:
    """Return a rank that began to end and was seen dead so many seconds ago."""
    state = {
        "alive": False,
        "process_state": None,
        "gone_seconds": gone,
        "exit_status": status,
        "last_words": last_words,
    }
    return rank_state(
        rank, **{**state, "last_words_seconds": began if last_words else None, "step_seconds": AGO + 0.02, **changes}
    )


def _survivor(rank: int, delay: float, when: str, launcher: Launcher, failed: bool, **changes) -> RankState:
    """Return another rank, whose neighbour's process ended `delay` seconds after the event."""
    broken = AGO - delay - 0.04 - rank * 0.003
    ended_by = launcher.survivors if failed else None
    status = f"signal {ended_by}" if ended_by else "exit code 1"
    if when == "init":  # it waits for the others at the store, and not in a collective
        if ended_by:
            last_words = words("signal", "SIGTERM", 'File "train.py", line 3', NOW - broken + 0.06)
            last_words = replace(last_words, sender_pid=LAUNCHER_PID)
            return _dead(rank, broken - 0.06, broken - 0.1, status, last_words, **changes)
        last_words = words("exception", "torch.distributed.DistStoreError", STORE_TIMEOUT, NOW - broken)
        return _dead(rank, broken, broken - 0.8, status, last_words, **changes)
    last_words = words("exception", "builtins.RuntimeError", DISCONNECT, NOW - broken)
    return _dead(
        rank, broken, broken - (0.1 if ended_by else 0.8), status, replace(last_words, in_collective=True), **changes
    )


def ranks_after(way: Way, when: str, launcher: Launcher) -> list[RankState]:
    """Return the four ranks of a job in which one has ended in this way."""
    delay = 0.8 if way.slow else 0.0
    own: LastWords | None = None
    if way.says is not None:
        sender_pid = OTHER_PID if way.says[0] == "signal" else None
        own = replace(words(*way.says, NOW - AGO), in_collective=way.in_collective, sender_pid=sender_pid)
    activity = {"evaluation": "eval", "init": "init"}.get(when, "train")
    place = {"max_restarts": launcher.restarts, "activity": activity, "steps": 0 if when == "init" else 118}
    if when == "teardown":
        done = way.says is None or way.says[0] != "exception"
        first = _dead(RANK, AGO, AGO - delay, way.status, own, **{**place, "activity": "done" if done else "train"})
        last_words = words("exit", "", "", NOW - AGO - 0.5)
        finished = {**place, "activity": "done", "lease_seconds": None}
        return [first, *(_dead(r, AGO + 0.5, AGO - 0.2, "exit code 0", last_words, **finished) for r in (0, 2, 3))]
    first = _dead(RANK, AGO, AGO - delay, way.status, own, **place)
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


@dataclass(frozen=True)
class JobEnd:
    """One way in which a whole job ends, or in which no rank is at fault."""

    name: str
    cause: str | None  # None: quiet
    severity: str | None
    culprits: str
    note: str
    ranks: Sequence[RankState]


def _gave_up(
    rank: int, text: str = "wait timeout after 6000ms, keys: /default_pg/0//cpu//0/1", type_: str = STORE_ERROR
) -> RankState:
    last_words = words("exception", type_, text, NOW - AGO + rank * 0.1)
    began = AGO - rank * 0.1
    return _dead(rank, began, began - 0.5, "exit code 1", last_words, activity="init", steps=0, sequences={})


def _signalled(rank: int, name: str = "SIGTERM", late: float = 0.0, **changes) -> RankState:
    last_words = words("signal", name, 'File "train.py", line 12', NOW - AGO + late)
    return _dead(rank, AGO - late, AGO - 0.1, f"signal {name}", last_words, **changes)


def _interrupted(rank: int, late: float = 0.0) -> RankState:
    last_words = words("exception", "builtins.KeyboardInterrupt", "", NOW - AGO + late)
    return _dead(rank, AGO - late, AGO - late - 0.8, "signal SIGINT", last_words)


def _broken(rank: int, late: float, status: str = "exit code 1") -> RankState:
    last_words = replace(words("exception", "builtins.RuntimeError", DISCONNECT, NOW - AGO + late), in_collective=True)
    return _dead(rank, AGO - late, max(AGO - late - 0.8, 0.6), status, last_words)


def _exits(rank: int, code: int, late: float = 0.0) -> RankState:
    kind = ("exception", "builtins.SystemExit", str(code)) if code else ("exit", "", "")
    activity = "train" if code else "done"
    return _dead(rank, AGO - late, AGO - 0.8, f"exit code {code}", words(*kind, NOW - AGO + late), activity=activity)


def _led(state: RankState) -> RankState:
    """Return the rank of a launcher that a signal ended first."""
    return replace(state, launcher_status="signal SIGTERM", launcher_gone_seconds=AGO)


def _not_met(rank: int) -> RankState:
    last_words = words("exception", "torch.distributed.DistNetworkError", STORE_TIMEOUT, NOW - AGO + rank * 0.01)
    began = AGO - rank * 0.01
    return _dead(rank, began, began - 0.5, "exit code 1", last_words, activity="init", steps=0, sequences={})


ALL = range(4)
LATE = 0.1  # a launcher looks for dead ranks every 0.1 s
JOB_ENDS = (
    JobEnd("all ranks return", None, None, "–", "", [_exits(r, 0, r * 0.1) for r in ALL]),
    JobEnd("Ctrl-C (SIGINT to the process group)", None, None, "–", "", [_interrupted(r, r * 0.003) for r in ALL]),
    JobEnd("Ctrl-C on a busy machine: some ranks raise broken connections for seconds", None, None, "–",
           "no launcher sends SIGINT because a rank failed",
           [_interrupted(0), _broken(1, 0.9), _interrupted(2, 1.5), _broken(3, 2.0)]),
    JobEnd("SIGTERM to the launcher, `scancel`, `kubectl delete`", None, None, "–", "",
           [_signalled(r, late=r * 0.001) for r in ALL]),
    JobEnd("SIGTERM to one rank in init; its launcher ends the others, and the senders are unknown", "unknown",
           "warning", "–", "the owner may have ended all ranks, and the host may have let one handle the signal first",
           [_signalled(RANK), *(_signalled(r, late=LATE) for r in ALL if r != RANK)]),
    JobEnd("SIGTERM to all; SIGKILL after a grace to ranks that go on", None, None, "–", "",
           [_signalled(0), _signalled(1), _signalled(2), _dead(3, 0.6, 0.6, "signal SIGKILL", None)]),
    JobEnd("SIGTERM to a launcher that passes it to nobody; SIGKILL to its ranks after a grace", None, None, "–",
           "a container's or a user's `kill`", [_led(_dead(r, 0.6, 0.6, "signal SIGKILL", None)) for r in ALL]),
    JobEnd("SIGTERM to the first process of a container: the kernel kills its ranks at once", None, None, "–",
           "the launcher was seen dead one look earlier",
           [_led(_dead(r, AGO - 0.1, AGO - 0.1, "signal SIGKILL", None)) for r in ALL]),
    JobEnd("SIGTERM to the first process of a container, seen in the same look as its ranks", None, None, "–",
           "all ranks were killed, and none has the signal",
           [_led(_dead(r, AGO + 0.05 * r, AGO, "signal SIGKILL", None)) for r in ALL]),
    JobEnd("SIGTERM to the first process of a container, seen after one of its ranks and before the others", None, None,
           "–", "all ranks were killed, and none has the signal",
           [_led(_dead(r, AGO + (0.1 if r == 1 else -0.1), AGO + (0.1 if r == 1 else -0.1), "signal SIGKILL", None))
            for r in ALL]),
    JobEnd("SIGTERM to the first process of a container: the kernel kills its ranks while they leave", None, None, "–",
           "they were interrupted before, and either may be seen dead first",
           [_led(_dead(r, AGO + 0.1, AGO + 0.1, "signal SIGKILL", words("exit", "", "", NOW - AGO - 0.2),
                       activity="done")) for r in ALL]),
    JobEnd("SIGKILL to a rank; the script that started the ranks ends all with `kill 0`", "rank_exited", "critical",
           "that rank", "both are seen dead in one look",
           [_led(_dead(1, AGO, AGO, "signal SIGKILL", None)), *(_led(_signalled(r, late=0.01)) for r in (0, 2, 3))]),
    JobEnd("SIGTERM to multiprocessing.spawn: one rank leaves, and the others wait for it", None, None, "–",
           "its processes are interrupted, and exit with code 0",
           [_led(_exits(0, 0)), *(_led(waiting(r, 9.0)) for r in (1, 2, 3))]),
    JobEnd("Ctrl-C; SIGKILL to a rank that hangs in its teardown", None, None, "–", "",
           [*(_interrupted(r) for r in (0, 1, 2)),
            _dead(3, AGO + 0.1, 0.6, "signal SIGKILL", words("exit", "", "", NOW - AGO - 0.1), activity="done")]),
    JobEnd("SIGHUP: the terminal was closed", None, None, "–", "",
           [_dead(r, AGO, AGO, "signal SIGHUP", None) for r in ALL]),
    JobEnd("SIGTERM, and the job's handler saves and exits 0", None, None, "–", "", [_exits(r, 0) for r in ALL]),
    JobEnd("SIGTERM, and the job's handler saves and exits 143", None, None, "–", "", [_exits(r, 143) for r in ALL]),
    JobEnd("SIGTERM, and the job's handler exits 1", "rank_exited", "critical", "the first to exit",
           "cannot be told from a job that calls `sys.exit(1)`", [_exits(r, 1, r * 0.01) for r in ALL]),
    JobEnd("SIGKILL to the launcher's process group", "rank_exited", "critical", "all ranks",
           "cannot be told from a fault", [_dead(r, AGO, AGO, "signal SIGKILL", None) for r in ALL]),
    JobEnd("SIGKILL to a launcher whose ranks end with it", "launcher_gone", "critical", "–",
           "multiprocessing interrupts its children (prctl PR_SET_PDEATHSIG)",
           [replace(_exits(r, 0), launcher_status="signal SIGKILL", launcher_gone_seconds=AGO + 0.1) for r in ALL]),
    JobEnd("all ranks end with their launcher, without last words, and no exit status is known", "unknown", "warning",
           "–", "an older kernel, or an agent that was down: the owner or a fault",
           [replace(_dead(r, 6.0, 6.0, None, None), launcher_gone_seconds=6.0) for r in ALL]),
    JobEnd("SIGKILL to torchrun, and its ranks live", "launcher_gone", "warning", "–", "the job moves",
           [rank_state(r, launcher_status="signal SIGKILL", launcher_gone_seconds=9.0) for r in ALL]),
    JobEnd("a shell or nohup ends, and its ranks live", None, None, "–", "it supervises nothing",
           [rank_state(r, max_restarts=None, launcher_gone_seconds=9.0) for r in ALL]),
    JobEnd("a thread raises", None, None, "–", "the rank goes on; what it then lacks is found as a stall",
           [rank_state(r) for r in ALL]),
    JobEnd("the connection between two ranks is reset", "connection_lost", "critical", "nobody; the pair is named",
           "", [_broken(0, 0.0), _broken(2, 0.004), _broken(1, 0.9, "signal SIGTERM"),
                _broken(3, 0.95, "signal SIGTERM")]),
    JobEnd("no rank reaches the store", "rendezvous_failed", "critical", "nobody", "", [_not_met(r) for r in ALL]),
    JobEnd("one rank does not reach the store, torchrun ends the others", "rendezvous_failed", "critical", "that rank",
           "", [_signalled(0, late=1.0), replace(_not_met(1)), _signalled(2, late=1.0), _signalled(3, late=1.0)]),
    JobEnd("one rank hangs on its way to the store, the others give up", "rendezvous_failed", "critical", "that rank",
           "", [_gave_up(0), _signalled(1, late=2.0, activity="init", steps=0), _gave_up(2), _gave_up(3)]),
    JobEnd("the ranks reach the store, but one does not reach another", "rendezvous_failed", "critical", "nobody", "",
           [_gave_up(0, MESH_ERROR, "builtins.RuntimeError"),
            *(_signalled(r, late=2.0, activity="init", steps=0) for r in (1, 2, 3))]),
    JobEnd("a rank has one batch more than the others", "uneven_end", "critical", "the rank that went on", "",
           [_exits(0, 0), _exits(1, 0), _exits(2, 0), _broken(3, 0.9)]),
)  # fmt: skip
CULPRITS = {  # name → the ranks that the finding names
    "the first to exit": (0,), "all ranks": (0, 1, 2, 3), "that rank": (1,), "the rank that went on": (3,),
}  # fmt: skip
