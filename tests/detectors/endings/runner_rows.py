"""Rows of jobs whose function a framework runs: it catches the function's exceptions, and ends the processes later.

Ray ends its actors with exit code 1, a pool of processes ends its workers with SIGTERM or lets them leave, and what
runs in a container is killed. None of that says whether the function returned or raised.
"""

from __future__ import annotations

from dataclasses import replace

from tests.build import DISCONNECT, NOW, finished, rank_state, waiting, words
from tests.detectors.endings.table import AGO, LAUNCHER_PID, seen_dead
from tests.detectors.stalls import QUIET, due, row
from zmon.schema.rank import LastWords, RankState

ALL = range(4)
TEARDOWN_SECONDS = 2.0  # from the end of the function to the end of its process
ENDS = {  # who ends the processes afterwards, by the exit status
    "Ray ends its actors": "exit code 1",
    "the framework terminates them": "signal SIGTERM",
    "Kubernetes or the framework kills them": "signal SIGKILL",
    "they may leave": "exit code 0",
}
FAILED_LAUNCHER = {"launcher_status": "exit code 1", "launcher_gone_seconds": AGO - TEARDOWN_SECONDS - 0.3}


def _ended(rank: int, status: str, last_words: LastWords | None, **changes) -> RankState:
    """Return a rank whose function ended `AGO` seconds ago, and whose process ended `TEARDOWN_SECONDS` later."""
    state = {"max_restarts": None, "step_seconds": AGO + 0.02, "state_seconds": AGO + 0.02, "phase": "other"}
    return seen_dead(rank, AGO, AGO - TEARDOWN_SECONDS, status, last_words, **{**state, **changes})


def returned(rank: int, status: str = "exit code 1", **changes) -> RankState:
    """Return a rank whose function returned."""
    last_words = words("exit", "ray.train", "", NOW - AGO)
    return _ended(rank, status, last_words, **{"activity": "done", "lease_seconds": None, **changes})


def raised(rank: int, status: str = "exit code 1", late: float = 0.0, **changes) -> RankState:
    """Return a rank whose function raised, by default during a save; its last words came `late` seconds later."""
    last_words = words("exception", "builtins.OSError", "no space left on /ckpt", NOW - AGO + late)
    return replace(
        _ended(rank, status, last_words, **{"activity": "checkpoint", **changes}), last_words_seconds=AGO - late
    )


def wordless(rank: int, status: str = "exit code 1", gone: float = 6.0, **changes) -> RankState:
    """Return a rank of a runner that zmon does not know, in no collective, after its last step."""
    state = {"max_restarts": None, "phase": "other", "step_seconds": gone + 0.4, "state_seconds": gone + 0.4}
    return seen_dead(rank, gone, gone, status, None, **{**state, **changes})


def lost(rank: int) -> RankState:
    """Return a rank whose function raised because a connection broke."""
    last_words = replace(words("exception", "builtins.RuntimeError", DISCONNECT, NOW - AGO + 0.1), in_collective=True)
    return _ended(rank, "exit code 1", last_words)


UNCLEAR = due("unknown", severity="warning")
CONFIRMED = {"launcher_status": "exit code 0", "launcher_gone_seconds": 5.3}
RUNNERS = (
    *(row(f"the function returns on all ranks; {who} ({status})", QUIET, [returned(r, status) for r in ALL],
          "it ended well, whoever ends its process")
      for who, status in ENDS.items()),
    row("the function has returned on all ranks, and the processes live on", QUIET,
        [rank_state(r, activity="done", lease_seconds=None, last_words=words("exit", "ray.train", "", NOW - 60),
                    last_words_seconds=60.0, max_restarts=None) for r in ALL]),
    row("the nanny of a Dask worker terminates it after its work", QUIET,
        [_ended(r, "signal SIGTERM", replace(words("signal", "SIGTERM", "", NOW - AGO), sender_pid=LAUNCHER_PID))
         for r in ALL],
        "nobody sees that its function returned, but its launcher ends all ranks, and none has failed"),
    row("Spark kills its idle Python workers after their work", due("rank_exited", *ALL),
        [wordless(r, "signal SIGKILL") for r in ALL],
        "looks like a fault; Spark's own TorchDistributor runs torchrun, whose ranks return"),
    row("a finished rank's container is killed: a Kubernetes Job is deleted while other containers of its pods live",
        QUIET, [finished(r) for r in ALL]),
    row("a notebook's kernel is killed after its cell has trained", due("rank_exited", 0, severity="warning"),
        [_ended(0, "signal SIGKILL", None, activity="done", lease_seconds=None, world_size=1)],
        says="the training had finished"),
    row("the function raises after it has left its group, and the program that started the pool fails",
        due("rank_exited", *ALL), [raised(r, "exit code 0", activity="done", **FAILED_LAUNCHER) for r in ALL]),
    *(row(f"the function raises on all ranks at the same save; {who} ({status})", due("rank_exited", *ALL),
          [raised(r, status, max_restarts=None, **(FAILED_LAUNCHER if status == "exit code 0" else {})) for r in ALL],
          "the program that started the pool fails too" if status == "exit code 0" else "")
      for who, status in ENDS.items()),
    row("the function raises on all ranks, and the program that started the pool goes on", QUIET,
        [raised(r, "exit code 0") for r in ALL], "it caught the exception"),
    row("the function raises on one rank; Ray ends the others, which wait for it", due("rank_exited", 1),
        [raised(1), *(_ended(r, "exit code 1", None, in_flight=waiting(r).in_flight) for r in (0, 2, 3))]),
    row("the function raises on one rank, and its process lives on", due("rank_exited", 1),
        [waiting(1, 5.0, in_flight=None, last_words=words("exception", "builtins.ValueError", "x", NOW - 4),
                 leaving_seconds=4.0, last_words_seconds=4.0), *(waiting(r, 5.0) for r in (0, 2, 3))]),
    row("the function returns on one rank, and fails on the others, which miss it", due("uneven_end", 2),
        [returned(2), *(lost(r) for r in (0, 1, 3))]),
    row("all ranks end with exit code 1 after the same step, in no collective and without last words", UNCLEAR,
        [wordless(r) for r in ALL], "a Ray actor without Ray Train: its method returned, or it raised",
        says="after the same step, in no collective"),
    row("all ranks end with exit code 1 without last words, and their launcher ends well", QUIET,
        [wordless(r, **CONFIRMED) for r in ALL], "it confirms the end"),
    row("all ranks end with exit code 1 without last words, and their launcher fails", due("rank_exited", *ALL),
        [wordless(r, launcher_status="exit code 1", launcher_gone_seconds=5.3) for r in ALL]),
    row("all ranks end with exit code 1 without last words, and their launcher may still report its end", QUIET,
        [wordless(r, gone=1.0) for r in ALL]),
    row("all ranks of torchrun end with exit code 1 without last words", due("rank_exited", *ALL),
        [wordless(r, max_restarts=0) for r in ALL], "it runs scripts, which leave last words"),
    row("all ranks end with exit code 1 without last words, and one is a step behind", due("rank_exited", *ALL),
        [wordless(0, step=99), *(wordless(r) for r in (1, 2, 3))]),
    row("all ranks end with exit code 1 without last words, and one is in a collective", due("rank_exited", *ALL),
        [wordless(0, in_flight=waiting(0).in_flight), *(wordless(r) for r in (1, 2, 3))]),
    row("all ranks end with exit code 1 without last words during the same save", due("rank_exited", *ALL),
        [wordless(r, activity="checkpoint") for r in ALL], "a save that is not done proves no end of the work"),
)  # fmt: skip
