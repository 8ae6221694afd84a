"""Rows of jobs with one rank, such as the first script that somebody tries: no other rank can hold it up."""

from __future__ import annotations

from tests.build import rank_state
from tests.detectors.hangs.awaited import COMPILES, EVALUATES
from tests.detectors.hangs.looks import SAVES, SLEEPS, SPINS, locked
from tests.detectors.hangs.silence import LOADING, STEP, healed
from tests.detectors.stalls import Row, job
from zmon.schema.rank import InFlight

HUNG, READS, LATE = "compute_hang, {}, rank 0", "input_stall, {}, rank 0", "lease_overrun, {}, rank 0"
WARNS, PAGES = HUNG.format("warning"), HUNG.format("critical")


def only(phase="other", seconds=5.0, lease=1.5, **changes):
    """Return the only rank of a job, which has stood in this phase since its last step."""
    usual = {
        "phase": phase, "step_seconds": seconds, "state_seconds": seconds, "lease_seconds": lease,
        "overdue_seconds": max(0.0, seconds - lease), "steps": 300, "world_size": 1, "sequences": {},
    }  # fmt: skip
    return rank_state(0, **{**usual, **changes})


def one(state, standing=None, frame=STEP, **changes):
    """Return the job of one rank, what the hub saw of it, and the line in which it stands."""
    frames = {0: frame} if frame else {}
    return job(state, rest=None, frames=frames, standing={0: standing} if standing else {}, **changes)


def starts_loader(seconds):
    """Return the only rank of a job, which has been starting its data loader for these seconds."""
    return only(seconds=seconds, lease=300.0, activity="loader_start", activity_seconds=seconds)


ONE_RANK = (
    *(Row(f"the only rank stands in {phase}", WARNS, one(only(phase)),
          f"rank 0 on node-a, the only rank, has been in phase {phase} for 5.0 s; rank 0 stands in {STEP};")
      for phase in ("forward", "backward", "other")),
    Row("the stack of the only rank is not known", WARNS, one(only(), frame=None),
        "has been in phase other for 5.0 s; it becomes critical after 20 s"),
    Row("the only rank stands still on a GPU", WARNS, one(only(device="GPU-0"))),
    Row("the only rank is in a barrier of its own group", WARNS,
        one(only(in_flight=InFlight("barrier", "0", 3, 0, 5.0))), "the only rank, has been in barrier for 5.0 s"),
    Row("the only rank stands still for 20 s", PAGES, one(only(seconds=20.0)), "critical after 20 s"),
    Row("the only rank waits for its data loader", READS.format("warning"), one(only("data"), frame=LOADING.frame),
        f"the only rank, has waited for its data loader for 5.0 s; rank 0 stands in {LOADING.frame};"),
    Row("the only rank is on a GPU and waits for its data loader", READS.format("warning"),
        one(only("data", device="GPU-0"))),
    Row("the only rank waits for its data loader for 20 s", READS.format("critical"), one(only("data", 20.0))),
    Row("the only rank loads at a place where a pause of 6 s healed", READS.format("info"),
        one(only("data"), frame=LOADING.frame, pauses=(healed(6.0),))),
    Row("the only rank waits for a lock for 4.9 s", WARNS, one(only(seconds=7.0), locked(4.9))),
    Row("the only rank waits for a lock for 5 s", PAGES, one(only(seconds=7.0), locked(5.0)),
        "critical, because it waits for a lock, a pipe or a child, and nothing in it has changed for 5.0 s"),
    Row("the only rank sleeps in a timer for 19 s", WARNS, one(only(seconds=19.0), SLEEPS)),
    Row("the only rank loops in one function for 25 s", PAGES, one(only(seconds=25.0), SPINS)),
    Row("the only rank saves for 25 s, and no hook sees the save", WARNS, one(only(seconds=25.0), SAVES),
        "it is not critical yet, because rank 0 writes 310 MB/s"),
    Row("steps take 2 s, and the only rank waits for a lock within its lease", WARNS,
        one(only(seconds=12.0, lease=33.0), locked(1.0)), note="no other rank can end this wait"),
    Row("steps take 2 s, and the only rank sleeps within its lease", "quiet",
        one(only(seconds=20.0, lease=33.0), SLEEPS)),
    Row("the only rank waits for a lock in its first steps, unchanged for 60 s", PAGES,
        one(only(seconds=130.0, lease=1800.0, steps=3), locked(60.0))),
    Row("the only rank saves for longer than its lease", LATE.format("critical"),
        one(only(seconds=905.0, lease=900.0, activity="checkpoint", activity_seconds=905.0),
            frame="save() at save.py:7"),
        "rank 0 on node-a has been in checkpoint for 905.0 s (lease 900 s); rank 0 stands in save() at save.py:7"),
    Row("nothing has changed for 60 s in the only rank, which starts data loaders", LATE.format("warning"),
        one(starts_loader(122.0), SLEEPS)),
    Row("a signal has stopped the only rank", "rank_frozen, critical, rank 0",
        one(only(process_state="T", stopped_seconds=2.0))),
    Row("a debugger holds the only rank", "rank_frozen, warning, rank 0",
        one(only(process_state="t", stopped_seconds=2.0))),
    Row("the only rank sleeps in the kernel (state D)", "rank_frozen, warning, rank 0",
        one(only(process_state="D", blocked_seconds=4.0))),
    Row("the only rank is within its lease", "quiet", one(only(seconds=1.4))),
    Row("the only rank evaluates", "quiet", one(only(seconds=600.0, **EVALUATES))),
    Row("the only rank saves", "quiet", one(only(seconds=600.0, **{**EVALUATES, "activity": "checkpoint"}))),
    Row("the only rank compiles its first step", "quiet", one(only(seconds=600.0, **COMPILES))),
    Row("the only rank is a notebook between two cells", "quiet",
        one(only(seconds=600.0, activity="done", lease_seconds=None, overdue_seconds=0.0))),
)  # fmt: skip
