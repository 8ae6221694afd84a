"""Rows of jobs that fail again and again: what counts as a crash loop, what repeats in it, and when it is over."""

from __future__ import annotations

from dataclasses import replace

from tests.build import NOW, raised, rank_state, terminated
from tests.detectors.stalls import QUIET, Row, due, row
from zmon.schema.ended_launch import LaunchEnd
from zmon.schema.rank import RankState

SAVED = {"last_checkpoint_time": NOW}
LAST_RESTART = {"restart_count": 0, "max_restarts": 0}


def end(number: int, step: int = 118, rank: int = 2, host: str = "node-a", **changes) -> LaunchEnd:
    """Return the end of the launch with this number; each launch lasts 50 s, and the next one starts after 10 s."""
    began = NOW - 600 + 60 * number
    launch = LaunchEnd(
        attempt=number, start=began, began=began, ended=began + 50, step=step, steps=step, saved=False,
        cause="rank_exited", ranks=(rank,), hosts=(host,), error="ValueError: bad sample",
    )  # fmt: skip
    return replace(launch, **changes)


def failing(step: int = 118, message: str = "bad sample", rank: int = 2, **changes) -> list[RankState]:
    """Return a launch that one rank ended with an exception a second ago, 30 s after the launch began."""
    fields = {"step": step, "steps": step, "step_seconds_total": 20.0, "open_seconds": 10.0, **changes}
    fields = {"restart_count": 2, "max_restarts": 20, **fields}
    dead = [terminated(other, 0.9, **fields) for other in range(4) if other != rank]
    return [raised(rank, 1.0, message, **fields), *dead]


def running(step: int, **changes) -> list[RankState]:
    """Return a launch that has been training since the last end."""
    fields = {"step": step, "steps": step, "step_seconds_total": 0.1 * step, "open_seconds": 1.0, **changes}
    return [rank_state(rank, **fields) for rank in range(4)]


def loop(name: str, due_: str, ends: list[LaunchEnd], ranks: list[RankState], note: str = "", later: float = 40) -> Row:
    """Return the row of a launch after these ends, `later` seconds after the last one of them."""
    return row(name, due_, ranks, note, earlier_ends=ends, time=ends[-1].ended + later)


TWO_ENDS, THREE_ENDS = [end(0), end(1)], [end(0), end(1), end(2)]
LOOP, ORDINARY = due("crash_loop", 2), due("rank_exited", 2, severity="warning")
LOOPS = (
    loop("the third start fails without progress", LOOP, TWO_ENDS, failing(), "it pages while restarts are left"),
    loop("the second start fails", ORDINARY, TWO_ENDS[:1], failing()),
    loop("the start of a supervisor fails", due("rank_exited", 2), [end(0, attempt=0)], failing(**LAST_RESTART)),
    loop("the last restart of a launcher fails", due("rank_exited", 2), [end(0, attempt=0)],
        failing(restart_count=1, max_restarts=1, attempt=1)),
    loop("the start of a person fails", due("rank_exited", 2), TWO_ENDS[:1], failing(**LAST_RESTART), later=1000),
    loop("a supervisor starts the launcher again, and each start fails", LOOP, [end(0, attempt=0), end(1, attempt=0)],
        failing(**LAST_RESTART)),
    loop("each start fails at a later step", ORDINARY, [end(0, 100), end(1, 500), end(2, 900)], failing(2000)),
    loop("each start fails after a new checkpoint", ORDINARY,
        [end(0, saved=True), end(1, 90, saved=True), end(2, 110, saved=True)], failing(70, **SAVED),
        "steps begin again at 0 in each start"),
    loop("each start saves checkpoints and fails in the same way", LOOP, [end(0, saved=True), end(1, saved=True)],
        failing(**SAVED), "the job does not resume them"),
    loop("the start after progress fails", ORDINARY, [*TWO_ENDS, end(2, 400)], failing(400, "another")),
    loop("the second start after progress fails", LOOP, [*TWO_ENDS, end(2, 400), end(3, 300)], failing(300)),
    loop("a start fails an hour after the others", ORDINARY, [*TWO_ENDS, end(2, began=NOW + 3600, ended=NOW + 3650)],
        failing(), "a person started it"),
    loop("the owner ends the third start", QUIET, THREE_ENDS,
        [terminated(rank, 9.0, open_seconds=20.0) for rank in range(4)]),
    loop("ranks of one host fail in turn", due("crash_loop", "node-a"), [end(0, rank=0), end(1, rank=3)], failing()),
    loop("ranks of several hosts fail in turn", due("crash_loop"),
        [end(0, rank=0, host="node-b"), end(1, rank=3, host="node-c")], failing()),
    loop("one rank fails on other hosts and at other steps", LOOP,
        [end(0, 120, host="node-b"), end(1, 90, host="node-c")], failing(100)),
    loop("each start fails before its first step", LOOP, [end(0, 0), end(1, 0)], failing(0)),
    loop("each start fails with another error", LOOP, [end(0, error="OSError: disk"), end(1, error="KeyError: 7")],
        failing()),
    loop("the next launch starts", LOOP, THREE_ENDS, running(0, activity="init", step_seconds_total=0.0)),
    loop("the next launch is at the furthest step", LOOP, THREE_ENDS, running(118)),
    loop("the next launch is 0.7 s beyond the furthest step", LOOP, THREE_ENDS, running(125)),
    loop("the next launch is 10 s beyond the furthest step", QUIET, THREE_ENDS, running(219)),
    loop("the next launch saves the first checkpoint", QUIET, THREE_ENDS, running(20, **SAVED)),
)  # fmt: skip
