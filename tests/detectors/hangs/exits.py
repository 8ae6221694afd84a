"""Rows of jobs that have finished, and whose processes hang in their exit."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tests.build import NOW, finished, killed, rank_state, words
from tests.detectors.hangs.looks import locked
from tests.detectors.stalls import Row, job

HANG = "compute_hang, {}, ranks 0, 1, 2, 3"
DONE = {"activity": "done", "lease_seconds": None, "overdue_seconds": 0.0, "phase": "other"}


def exiting(rank, seconds, runner=""):
    """Return a living rank whose program ended `seconds` ago, or whose function returned to this framework."""
    times = {"last_words_seconds": seconds, "activity_seconds": seconds, "step_seconds": seconds}
    return rank_state(rank, last_words=words("exit", runner, "", NOW - seconds), **times, **DONE)


def exits(seconds, unchanged, *ranks, **changes):
    """Return a job that has exited for `seconds`: in its living ranks nothing has changed for `unchanged` seconds.

    None: the hub has not looked.
    """
    scene = job(*ranks, **{"rest": partial(exiting, seconds=seconds), **changes})
    if unchanged is None:
        return scene
    return replace(scene, standing={r.rank: locked(unchanged, ("ep_poll",)) for r in scene.ranks if r.alive})


goes_on = partial(rank_state, step_seconds=200.0, **DONE)

EXITS = (
    Row("all programs ended 119 s ago, and nothing has changed in the processes for 59 s", "quiet", exits(119.0, 59.0),
        note="a library may upload something"),
    Row("all programs ended 120 s ago, and nothing has changed in the processes for 60 s", HANG.format("warning"),
        exits(120.0, 60.0), "have finished, and their processes have not ended for 2 min since the end of the program"),
    Row("all programs ended 300 s ago, and nothing has changed in the processes for 60 s", HANG.format("critical"),
        exits(300.0, 60.0)),
    Row("the processes work for 29 min after the end of the programs", "quiet", exits(1799.0, 0.0)),
    Row("the processes work for 30 min after the end of the programs", HANG.format("critical"), exits(1800.0, 0.0)),
    Row("the hub has not looked at the processes for 29 min", "quiet", exits(1799.0, None)),
    Row("one process does not end after its program, and all others have ended", "compute_hang, warning, rank 3",
        exits(0.0, 60.0, exiting(3, 200.0), *map(finished, (0, 1, 2))), "its process has not ended for 3 min 20 s"),
    Row("one process does not end for an hour, and all others have ended", "compute_hang, warning, rank 3",
        exits(0.0, 60.0, exiting(3, 3600.0), *(finished(rank, 3590.0) for rank in range(3))),
        note="a thread of one rank may serve something on purpose"),
    Row("two of four processes do not end for 5 min, and the others have ended", "compute_hang, critical, ranks 2, 3",
        exits(300.0, 60.0, *(finished(rank, 290.0) for rank in range(2)))),
    Row("one process does not end after its program, and another one exports the model", "quiet",
        exits(200.0, 100.0, goes_on(0)), note="the exit may wait for the export"),
    Row("the functions of all ranks have returned to Ray, whose processes wait", "quiet",
        exits(0.0, 200.0, *(exiting(rank, 400.0, "ray.train") for rank in range(4))), note="they may get more work"),
    Row("one rank was killed, and the processes of the others do not end", "rank_exited, critical, rank 3",
        exits(400.0, 300.0, killed(3, 399.0))),
    Row("an agent is silent, and the processes of the other ranks do not end", "quiet",
        exits(400.0, 300.0, unwatched=(exiting(3, 400.0),))),
    Row("a rank was never seen, and the processes of the other ranks do not end", "quiet",
        exits(400.0, 300.0, *(exiting(rank, 400.0) for rank in range(3)), rest=None)),
)  # fmt: skip
