"""Rows about the severity of a stall: silence is a warning that rises, and a pause that healed before is info."""

from __future__ import annotations

from functools import partial

from tests.build import NOW, rank_state, waiting
from tests.detectors.stalls import Row, inside, job, outside, stopped
from zmon.schema.pause import HealedPause, Place

LOADING = Place("data", "read() at loader.py:40")
STEP = "step() at train.py:40"


def healed(seconds, place=LOADING):
    """Return the pauses at one place, the longest of this length."""
    return HealedPause(place, seconds, 4, NOW - 600)


def loading(seconds, *pauses, frame=LOADING.frame):
    """Return a job that waits for the loader of rank 2, which stands still at `frame`."""
    loads = waiting(2, seconds, in_flight=None, phase="data")
    return job(loads, rest=partial(waiting, seconds=seconds), frames={2: frame} if frame else {}, pauses=pauses)


def moving(seconds, unchanged, pauses=(), frames=None, phase="data", **changes):
    """Return a job without a step that waits for rank 2, which has been in its phase for `unchanged` seconds."""
    times = {"step_seconds": seconds, "overdue_seconds": seconds - 1.5, "state_seconds": unchanged}
    return job(outside(2, phase, **{**times, **changes}), rest=partial(waiting, seconds=seconds), pauses=pauses,
               frames=frames or {})  # fmt: skip


def standing(frames, *ranks, rest=inside, **changes):
    """Return a job whose ranks stand in these frames, by rank; by default all are in a collective."""
    return job(*ranks, rest=rest, frames=frames, **changes)


READS, HUNG = "input_stall, {}, rank 2", "compute_hang, {}, rank 2"
WARNS = READS.format("warning")
EVAL = {"activity": "eval", "activity_seconds": 90.0, "lease_seconds": 60.0, "overdue_seconds": 30.0}
EVERYWHERE = dict.fromkeys(range(4), LOADING.frame)
SILENCE = (
    *(Row(f"a rank loads for {seconds:g} s", READS.format(severity), loading(seconds))
      for seconds, severity in ((1.6, "warning"), (19.9, "warning"), (20.0, "critical"), (600.0, "critical"))),
    *(Row(f"all ranks are in a collective for {seconds:g} s", f"unknown, {severity}, nobody",
          job(rest=partial(waiting, seconds=seconds))) for seconds, severity in ((5.0, "warning"), (21.0, "critical"))),
    Row("all ranks wait for 151 s, after a lease of 150 s", "unknown, critical, nobody",
        job(rest=partial(waiting, seconds=151.0, lease_seconds=150.0, overdue_seconds=1.0))),
)  # fmt: skip
PAUSES = (
    *(Row(f"a rank loads for {seconds:g} s at a place where a pause of {longest:g} s healed", READS.format(severity),
          loading(seconds, healed(longest)))
      for longest, seconds, severity in (
          (6.0, 2.0, "info"), (6.0, 9.0, "info"), (6.0, 9.1, "warning"), (6.0, 19.9, "warning"),
          (6.0, 20.0, "critical"), (10.0, 15.1, "warning"), (10.0, 29.9, "warning"), (10.0, 30.0, "critical"),
          (250.0, 299.0, "info"), (250.0, 300.0, "critical"))),
    Row("a rank loads for 3 s at a place where a pause of 10 s healed", READS.format("info"),
        loading(3.0, healed(10.0)), "it becomes critical after 30 s (a pause of 10 s at this place healed before)"),
    Row("a rank loads for 5 s, and a pause healed at another line", WARNS,
        loading(5.0, healed(60.0, Place("data", "read() at loader.py:41")))),
    Row("a rank loads for 5 s, and a pause healed at this line in another phase", WARNS,
        loading(5.0, healed(60.0, Place("forward", LOADING.frame)))),
    Row("a rank loads for 5 s, and its stack is not known", WARNS, loading(5.0, healed(60.0), frame=None)),
    Row("a rank loads for 1.8 s, its stack is not known, and 6 s healed in this phase", READS.format("info"),
        loading(1.8, healed(6.0), frame=None), "pauses of this length healed before"),
    Row("a rank loads for 3.6 s, its stack is not known, and 6 s healed in this phase", WARNS,
        loading(3.6, healed(6.0), frame=None), note="2 s after the lease, the hub should know the stack"),
    Row("a rank loads for 1.8 s, its stack is not known, and nothing healed", WARNS, loading(1.8, frame=None)),
    Row("a rank loads for 1.8 s, its stack is not known, and a pause healed in another phase", WARNS,
        loading(1.8, healed(6.0, Place("forward", "f() at a.py:1")), frame=None)),
    *(Row(f"a rank left the place of its pause 0.2 s ago{where}", HUNG.format("info"),
          moving(3.0, 0.2, [healed(6.0)], frames, "forward"),
          note="a pause of this length healed, and the step is not over")
      for where, frames in (("", None), (" and stands elsewhere", {2: "step() at train.py:9"}))),
    *(Row(f"a rank left the place of its pause 1.8 s ago{where}", HUNG.format("warning"),
          moving(3.0, 1.8, [healed(6.0)], frames, "forward"))
      for where, frames in (("", None), (" and stands elsewhere", {2: "step() at train.py:9"}))),
    Row("a rank entered its phase 0.2 s ago, and no pause healed before", HUNG.format("warning"),
        moving(3.0, 0.2, phase="forward")),
    Row("all ranks load at a place where a pause healed", "input_stall, info, ranks 0, 1, 2, 3",
        standing(EVERYWHERE, rest=partial(outside, phase="data"), pauses=(healed(6.0),))),
    Row("all ranks load, one of them at a place where no pause healed", "input_stall, warning, ranks 0, 1, 2, 3",
        standing({**EVERYWHERE, 3: "wait() at a.py:1"}, rest=partial(outside, phase="data"), pauses=(healed(6.0),))),
)  # fmt: skip
MOVING = (
    *(Row(f"a rank loads batches without a step for {seconds:g} s", HUNG.format("warning"), moving(seconds, 0.3),
          "it is not critical yet, because rank 2 still changes its phase", "it evaluates without eval mode")
      for seconds in (25.0, 600.0)),
    Row("a rank loads batches without a step for more than half an hour", HUNG.format("critical"), moving(1802.0, 0.3)),
    Row("a rank loads batches without a step for 81 s, then stands still for 19 s", HUNG.format("warning"),
        moving(100.0, 19.0)),
    Row("a rank loads batches without a step for 79 s, then stands still for 21 s", HUNG.format("critical"),
        moving(100.0, 21.0)),
    Row("a rank evaluates for longer than its lease and moves", "lease_overrun, warning, rank 2",
        moving(90.0, 0.3, **EVAL)),
    Row("a rank evaluates for longer than its lease and stands still", "lease_overrun, critical, rank 2",
        moving(90.0, 25.0, **EVAL)),
)  # fmt: skip


def sleeps(rank, blocked, seconds=5.0, **changes):
    """Return a rank in uninterruptible sleep, in no collective."""
    return outside(rank, process_state="D", blocked_seconds=blocked,
                   **{"step_seconds": seconds, "state_seconds": seconds, **changes})  # fmt: skip


WITHIN = {"overdue_seconds": 0.0, "step_seconds": 0.01}
FROZEN = (
    Row("a process is stopped", "rank_frozen, critical, rank 2", job(stopped(2)),
        "3 of 3 others wait in all_to_all … has been stopped (state T) for 2.0 s"),
    *(Row(f"a process is stopped in {activity}, within its lease", "rank_frozen, critical, rank 0",
          job(stopped(0, activity=activity), rest=partial(rank_state, activity=activity)),
          f"during {activity} … no rank waits for it yet") for activity in ("init", "train", "eval", "checkpoint")),
    Row("a process is stopped for 0.2 s", "quiet", job(stopped(2, 0.2), rest=rank_state),
        note="py-spy or gdb may have stopped it"),
    Row("a process is stopped after its rank has finished", "quiet", job(stopped(2, activity="done"), rest=rank_state)),
    Row("a process sleeps in the kernel (state D) for 4 s, past its lease", "rank_frozen, warning, rank 1",
        job(sleeps(1, 4.0)), "state D … critical after 20 s", "slow storage may answer"),
    Row("a process sleeps in the kernel for 19 s, and no rank has moved for 21 s", "rank_frozen, critical, rank 1",
        job(sleeps(1, 19.0, 21.0), rest=partial(waiting, seconds=21.0))),
    Row("a process sleeps in the kernel for 9 s, within its lease", "quiet",
        job(sleeps(1, 9.0, **WITHIN), rest=rank_state), note="a read from a busy file system takes this long"),
    Row("a process sleeps in the kernel for 0.1 s, and another rank computes", "compute_hang, warning, rank 2",
        job(waiting(1, process_state="D", blocked_seconds=0.1), outside(2))),
)  # fmt: skip
PLACES = (
    *(Row(f"a rank stands in {phase}, and stacks are known", f"{cause}, warning, rank 3",
          standing({3: LOADING.frame, 0: STEP}, outside(3, phase)), f"; rank 3 stands in {LOADING.frame};")
      for phase, cause in (("data", "input_stall"), ("forward", "compute_hang"))),
    Row("a rank is stopped, and stacks are known", "rank_frozen, critical, rank 3",
        standing({3: LOADING.frame}, stopped(3)), f"; rank 3 stands in {LOADING.frame}"),
    Row("all ranks stand in the same line", "unknown, warning, nobody", standing(dict.fromkeys(range(4), STEP)),
        f"; all 4 ranks stand in {STEP}"),
    Row("the ranks stand in two lines", "unknown, warning, nobody",
        standing({0: STEP, 1: STEP, 2: LOADING.frame}),
        f"; ranks 0, 1 stand in {STEP}; rank 2 stands in {LOADING.frame}"),
)  # fmt: skip
