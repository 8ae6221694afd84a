"""Rows of whole jobs that end: by their owner, with their launcher, by one rank's fault, or as ranks never met."""

from __future__ import annotations

from dataclasses import replace

from tests.build import DISCONNECT, NOW, rank_state, waiting, words
from tests.detectors.endings.table import AGO, MESH_ERROR, RANK, STORE_ERROR, STORE_TIMEOUT, seen_dead
from tests.detectors.stalls import QUIET, due, row
from zmon.schema.rank import EXECUTED, RankState

ALL = range(4)
LATE = 0.1  # a launcher looks for dead ranks every 0.1 s


def gave_up(
    rank: int, text: str = "wait timeout after 6000ms, keys: /default_pg/0//cpu//0/1", type_: str = STORE_ERROR
) -> RankState:
    """Return a rank that waited in init for the others in vain."""
    last_words = words("exception", type_, text, NOW - AGO + rank * 0.1)
    began = AGO - rank * 0.1
    return seen_dead(rank, began, began - 0.5, "exit code 1", last_words, activity="init", steps=0, sequences={})


def signalled(rank: int, name: str = "SIGTERM", late: float = 0.0, **changes) -> RankState:
    """Return a rank that this signal ended, `late` seconds after the event."""
    last_words = words("signal", name, 'File "train.py", line 12', NOW - AGO + late)
    return seen_dead(rank, AGO - late, AGO - 0.1, f"signal {name}", last_words, **changes)


def stopped_by_ctrl_c(rank: int, late: float = 0.0) -> RankState:
    """Return a rank that Ctrl-C ended, `late` seconds after the event."""
    last_words = words("exception", "builtins.KeyboardInterrupt", "", NOW - AGO + late)
    return seen_dead(rank, AGO - late, AGO - late - 0.8, "signal SIGINT", last_words)


def broken(rank: int, late: float, status: str = "exit code 1") -> RankState:
    """Return a rank that lost a connection, `late` seconds after the event, and ended up to 0.8 s later."""
    last_words = replace(words("exception", "builtins.RuntimeError", DISCONNECT, NOW - AGO + late), in_collective=True)
    return seen_dead(rank, AGO - late, max(AGO - late - 0.8, 0.6), status, last_words)


def exits(rank: int, code: int, late: float = 0.0) -> RankState:
    """Return a rank that left by `sys.exit` with this code, `late` seconds after the event; 0: it returned."""
    kind = ("exception", "builtins.SystemExit", str(code)) if code else ("exit", "", "")
    activity = "train" if code else "done"
    return seen_dead(
        rank, AGO - late, AGO - 0.8, f"exit code {code}", words(*kind, NOW - AGO + late), activity=activity
    )


def leaves(rank: int, how: str, code: int, late: float = 0.0, **changes) -> RankState:
    """Return a rank that left between two steps by `sys.exit` or `os._exit`."""
    last_words = words("exception", "builtins.SystemExit", str(code), NOW - AGO + late) if how == "sys.exit" else None
    state = {"phase": "other", "exit_status": f"exit code {code}", **changes}
    return seen_dead(rank, AGO - late, AGO - late - 0.8, state.pop("exit_status"), last_words, **state)


def raises(rank: int, late: float) -> RankState:
    """Return a rank that raised an exception between two steps, `late` seconds after the event."""
    last_words = words("exception", "builtins.ValueError", "bad batch 17", NOW - AGO + late)
    return seen_dead(rank, AGO - late, AGO - late - 0.8, "exit code 1", last_words, phase="other")


def led(state: RankState) -> RankState:
    """Return the rank of a launcher that a signal ended first."""
    return replace(state, launcher_status="signal SIGTERM", launcher_gone_seconds=AGO)


def ends(rank: int, seconds: float = 3.0) -> RankState:
    """Return a rank that left its loop when SIGTERM ended its launcher, and whose process has not ended yet."""
    state = {"activity": "done", "activity_seconds": seconds, "step_seconds": seconds, "lease_seconds": None}
    launcher = {"launcher_status": "signal SIGTERM", "launcher_gone_seconds": seconds - 0.1}
    return rank_state(rank, sequences={"0": 299}, **launcher, **state)


def not_met(rank: int) -> RankState:
    """Return a rank that did not reach the store in init."""
    last_words = words("exception", "torch.distributed.DistNetworkError", STORE_TIMEOUT, NOW - AGO + rank * 0.01)
    began = AGO - rank * 0.01
    return seen_dead(rank, began, began - 0.5, "exit code 1", last_words, activity="init", steps=0, sequences={})


WHOLE_JOB = (
    row("all ranks return", QUIET, [exits(r, 0, r * 0.1) for r in ALL]),
    row("all ranks become another program by `exec`", QUIET,
        [seen_dead(r, AGO, AGO - r * 0.5, EXECUTED, None) for r in ALL],
        "their processes live on: the next stage of the job"),
    row("all ranks become another program by `exec`, except one that raises before", due("rank_exited", 1),
        [raises(1, 0.0), *(seen_dead(r, AGO, AGO - 1.5, EXECUTED, None) for r in (0, 2, 3))]),
    row("Ctrl-C (SIGINT to the process group)", QUIET, [stopped_by_ctrl_c(r, r * 0.003) for r in ALL]),
    row("Ctrl-C on a busy machine: some ranks raise broken connections for seconds", QUIET,
        [stopped_by_ctrl_c(0), broken(1, 0.9), stopped_by_ctrl_c(2, 1.5), broken(3, 2.0)],
        "no launcher sends SIGINT because a rank failed"),
    row("SIGTERM to the launcher, `scancel`, `kubectl delete`", QUIET, [signalled(r, late=r * 0.001) for r in ALL]),
    row("SIGTERM to one rank in init; its launcher ends the others, and the senders are unknown",
        due("unknown", severity="warning"), [signalled(RANK), *(signalled(r, late=LATE) for r in ALL if r != RANK)],
        "the owner may have ended all ranks, and the host may have let one handle the signal first"),
    row("SIGTERM to all; SIGKILL after a grace to ranks that go on", QUIET,
        [signalled(0), signalled(1), signalled(2), seen_dead(3, 0.6, 0.6, "signal SIGKILL", None)]),
    row("SIGTERM to a launcher that passes it to nobody; SIGKILL to its ranks after a grace", QUIET,
        [led(seen_dead(r, 0.6, 0.6, "signal SIGKILL", None)) for r in ALL], "a container's or a user's `kill`"),
    row("SIGTERM to the first process of a container: the kernel kills its ranks at once", QUIET,
        [led(seen_dead(r, AGO - 0.1, AGO - 0.1, "signal SIGKILL", None)) for r in ALL],
        "the launcher was seen dead one look earlier"),
    row("SIGTERM to the first process of a container, seen in the same look as its ranks", QUIET,
        [led(seen_dead(r, AGO + 0.05 * r, AGO, "signal SIGKILL", None)) for r in ALL],
        "all ranks were killed, and none received the signal"),
    row("SIGTERM to the first process of a container, seen after one of its ranks and before the others", QUIET,
        [led(seen_dead(r, AGO + early, AGO + early, "signal SIGKILL", None))
         for r, early in enumerate((-0.1, 0.1, -0.1, -0.1))],
        "all ranks were killed, and none received the signal"),
    row("SIGTERM to the first process of a container: the kernel kills its ranks while they leave", QUIET,
        [led(seen_dead(r, AGO + 0.1, AGO + 0.1, "signal SIGKILL", words("exit", "", "", NOW - AGO - 0.2),
                   activity="done")) for r in ALL],
        "they were interrupted before, and either may be seen dead first"),
    row("SIGTERM to the first process of a container: two ranks have just left, and the kernel kills the others", QUIET,
        [led(exits(0, 0)), led(exits(1, 0)), *(led(seen_dead(r, AGO, AGO, None, None)) for r in (2, 3))],
        "multiprocessing.spawn interrupts its processes, which exit with code 0"),
    row("SIGKILL to a rank; the script that started the ranks ends all with `kill 0`", due("rank_exited", 1),
        [led(seen_dead(1, AGO, AGO, "signal SIGKILL", None)), *(led(signalled(r, late=0.01)) for r in (0, 2, 3))],
        "both are seen dead in one look"),
    row("SIGTERM to multiprocessing.spawn: one rank leaves, and the others wait for it", QUIET,
        [led(exits(0, 0)), *(led(waiting(r, 9.0)) for r in (1, 2, 3))],
        "its processes are interrupted, and exit with code 0"),
    *(row(f"SIGTERM to multiprocessing.spawn: three ranks left their loops {seconds:.0f} s ago, and one {what}",
          expected, [*(ends(r, seconds) for r in (0, 1, 2)), replace(led(last), launcher_gone_seconds=seconds)], note)
      for seconds, what, last, expected, note in (
          (3.0, "waits for them", waiting(3, 9.0), QUIET, "their processes end soon"),
          (3.0, "lost a connection", broken(3, 0.1), QUIET, "their processes end soon"),
          (70.0, "waits for them", waiting(3, 75.0), due("unknown"), "they hang in their teardown"),
          (8.0, "lost a connection before", broken(3, -8.0), due("connection_lost"), "the script ended itself"))),
    *(row(f"three ranks left their loops 3 s ago, one waits for them, and {what}", due("uneven_end", 3),
          [*(replace(ends(r), **changes) for r in (0, 1, 2)), waiting(3, 9.0)], note)
      for what, changes, note in (
          ("their launcher ended with code 1", {"launcher_status": "exit code 1"}, ""),
          ("SIGTERM ended their launcher only", {}, "the launcher of the other rank lives"),
          ("SIGHUP ended their launcher 40 s ago", {"launcher_status": "signal SIGHUP", "launcher_gone_seconds": 40.0},
           "they trained on without it"))),
    row("Ctrl-C; SIGKILL to a rank that hangs in its teardown", QUIET,
        [*(stopped_by_ctrl_c(r) for r in (0, 1, 2)),
         seen_dead(3, AGO + 0.1, 0.6, "signal SIGKILL", words("exit", "", "", NOW - AGO - 0.1), activity="done")]),
    row("SIGHUP: the terminal was closed", QUIET, [seen_dead(r, AGO, AGO, "signal SIGHUP", None) for r in ALL]),
    row("SIGTERM, and the job's handler saves and exits 0", QUIET, [exits(r, 0) for r in ALL]),
    row("SIGTERM, and the job's handler saves and exits 143", QUIET, [exits(r, 143) for r in ALL]),
    row("SIGTERM, and the job's handler exits 1", due("rank_exited", 0), [exits(r, 1, r * 0.01) for r in ALL],
        "looks like a job that calls `sys.exit(1)`"),
    row("all ranks leave by `sys.exit(85)` after the same step, and the launcher signals the last ones",
        due("unknown", severity="warning"),
        [leaves(r, "sys.exit", 85, exit_status="signal SIGTERM" if r > 1 else "exit code 85") for r in ALL],
        "a code that they agreed on: the scheduler queues the job again", "the job chose this end"),
    row("all ranks leave by `os._exit(85)` after the same step", due("unknown", severity="warning"),
        [leaves(r, "os._exit", 85) for r in ALL], says="all 4 ranks left with exit code 85"),
    row("all ranks leave by `os._exit(143)` after the same step", QUIET, [leaves(r, "os._exit", 143) for r in ALL],
        "the job's handler of SIGTERM ended them"),
    row("all ranks leave by `os._exit(85)`, and one is a step behind", due("rank_exited", *ALL),
        [leaves(r, "os._exit", 85, step=99 if r == 1 else 100) for r in ALL]),
    row("all ranks leave by `os._exit(85)`, and one has entered a collective less", due("rank_exited", *ALL),
        [leaves(r, "os._exit", 85, sequences={"0": 299 if r == 1 else 300}) for r in ALL],
        "it failed, and the job caught the errors of the others"),
    row("all ranks leave by `sys.exit(2)` in init", due("rank_exited", *ALL),
        [leaves(r, "sys.exit", 2, activity="init", steps=0) for r in ALL], "argparse does that"),
    row("one rank leaves by `sys.exit(85)`, and the launcher ends the others", due("rank_exited", 1),
        [leaves(1, "sys.exit", 85), *(signalled(r, late=LATE) for r in (0, 2, 3))]),
    row("one rank leaves by `sys.exit(85)` after the others have raised", due("rank_exited", 0),
        [raises(0, 0.0), leaves(1, "sys.exit", 85, late=0.4), *(raises(r, 0.1) for r in (2, 3))]),
    row("all ranks raise the same error after the same step", due("rank_exited", 0),
        [raises(r, r * 0.01) for r in ALL]),
    row("SIGKILL to the launcher's process group", due("rank_exited", 0, 1, 2, 3),
        [seen_dead(r, AGO, AGO, "signal SIGKILL", None) for r in ALL], "looks like a fault"),
    row("SIGKILL to a launcher whose ranks end with it", due("launcher_gone", "node-a"),
        [replace(exits(r, 0), launcher_status="signal SIGKILL", launcher_gone_seconds=AGO + 0.1) for r in ALL],
        "multiprocessing interrupts its children (prctl PR_SET_PDEATHSIG)"),
    row("all ranks end with their launcher, without last words, and no exit status is known",
        due("unknown", severity="warning"),
        [replace(seen_dead(r, 6.0, 6.0, None, None), launcher_gone_seconds=6.0) for r in ALL],
        "an older kernel, or an agent that was down: the owner or a fault"),
    row("SIGKILL to torchrun, and its ranks live", due("launcher_gone", "node-a", severity="warning"),
        [rank_state(r, launcher_status="signal SIGKILL", launcher_gone_seconds=9.0) for r in ALL], "the job moves"),
    row("a shell or nohup ends, and its ranks live", QUIET,
        [rank_state(r, max_restarts=None, launcher_gone_seconds=9.0) for r in ALL], "it supervises nothing"),
    row("a thread raises", QUIET, [rank_state(r) for r in ALL],
        "the rank goes on; what it then lacks is found as a stall"),
    row("the connection between two ranks is reset", due("connection_lost", "node-a"),
        [broken(0, 0.0), broken(2, 0.004), broken(1, 0.9, "signal SIGTERM"), broken(3, 0.95, "signal SIGTERM")],
        "the pair is in the evidence"),
    row("no rank reaches the store", due("rendezvous_failed", "node-a"), [not_met(r) for r in ALL]),
    row("one rank does not reach the store, torchrun ends the others", due("rendezvous_failed", 1),
        [signalled(0, late=1.0), not_met(1), signalled(2, late=1.0), signalled(3, late=1.0)]),
    row("one rank hangs on its way to the store, the others give up", due("rendezvous_failed", 1),
        [gave_up(0), signalled(1, late=2.0, activity="init", steps=0), gave_up(2), gave_up(3)]),
    row("the ranks reach the store, but one does not reach another", due("rendezvous_failed", "node-a"),
        [gave_up(0, MESH_ERROR, "builtins.RuntimeError"),
         *(signalled(r, late=2.0, activity="init", steps=0) for r in (1, 2, 3))]),
    row("a rank has one batch more than the others", due("uneven_end", 3),
        [exits(0, 0), exits(1, 0), exits(2, 0), broken(3, 0.9)]),
)  # fmt: skip
