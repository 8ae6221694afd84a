"""Rows of jobs in which one rank never trains: it generates batches, or evaluates, beside the ranks that train."""

from __future__ import annotations

from dataclasses import replace

from tests.build import rank_state, snapshot
from tests.detectors.stalls import Row, inside, outside
from zmon.schema.standing import Standing, WorkSigns

LIVED = {"steps": 0, "step": 1, "open_seconds": 600.0, "activity_seconds": 600.0, "step_seconds": 600.0}
INIT = {**LIVED, "activity": "init", "lease_seconds": 1800.0, "overdue_seconds": 0.0}
EVAL = {**INIT, "activity": "eval"}
OLD = {"open_seconds": 3700.0, "activity_seconds": 3700.0, "step_seconds": 3700.0, "overdue_seconds": 1900.0}
WORKS = {1: Standing(waits=("",), work=WorkSigns(in_other_code=True))}


def pair(scene, due, learner, other, says="", note="", **changes):
    """Return the row of a job of a rank that trains and of one that never does."""
    return Row(scene, due, replace(snapshot(learner, other), **changes), says, note)


def learner(build, seconds=25.0, op="broadcast", **changes):
    """Return the rank that trains, without a step for this time, in the broadcast of a batch or before it."""
    times = {"step_seconds": seconds, "state_seconds": seconds, "overdue_seconds": max(0.0, seconds - 1.5)}
    if build is inside:
        return inside(0, op, seconds=seconds, **{"world_size": 2, **changes})
    return build(0, **{"world_size": 2, **times, **changes})


def generator(seconds=25.0, **changes):
    """Return a rank that generates the next batch, and has entered no collective for this time."""
    return outside(1, "other", **{**INIT, "world_size": 2, "state_seconds": seconds, **changes})


def receiver(seconds=25.0, **changes):
    """Return a rank that never trains, and waits for the other one."""
    return inside(1, "broadcast", seconds=seconds, **{**INIT, "world_size": 2, "state_seconds": seconds, **changes})


ROLES = (
    pair("a rank that trains hangs for 25 s, and a generator waits for it", "compute_hang, critical, rank 0",
         learner(outside), receiver()),
    pair("a rank that trains hangs for 5 s, and a generator waits for it", "compute_hang, warning, rank 0",
         learner(outside, 5.0), receiver(5.0)),
    pair("a rank that trains hangs for 25 s, and an evaluator waits for it", "compute_hang, critical, rank 0",
         learner(outside), receiver(**EVAL)),
    pair("a rank that trains hangs, and the generator has been in init for longer than its lease",
         "compute_hang, warning, rank 0",
         learner(outside, 5.0), receiver(5.0, **OLD), "for 5.0 s, since step 100 (lease 1.5 s)"),
    pair("a rank that trains hangs, and an evaluator for which nobody waits evaluates", "unknown, critical, nobody",
         learner(outside), generator(**EVAL, sequences={"0": 300}), "in no collective … rank 0 (forward)"),
    pair("a generator hangs, and the rank that trains waits for it", "compute_hang, critical, rank 1",
         learner(inside), generator(), "1 of 2 ranks wait in a collective for it"),
    pair("a generator works for 2 min, and the rank that trains waits for it", "compute_hang, warning, rank 1",
         learner(inside, 120.0), generator(120.0), "rank 1 runs other functions from look to look",
         "a rank that works while others wait is a warning", standing=WORKS),
    pair("a generator and a rank that trains, both on GPUs, stand still outside collectives",
         "unknown, critical, nobody",
         learner(outside, device="GPU-0", sequences={"0": 301}), generator(device="GPU-1", sequences={"0": 300}),
         "rank 0 (forward), rank 1 (other)"),
    pair("a generator works for 1 s, after more than the lease of init", "quiet",
         learner(inside, 1.0), generator(1.0, **OLD)),
    pair("an evaluator waits for weights while a rank trains", "quiet",
         rank_state(0, world_size=2), receiver(600.0, **OLD, activity="eval")),
    pair("an evaluator evaluates, and the rank that trains waits for it", "quiet",
         learner(inside, 600.0), generator(600.0, **EVAL),
         note="the lease of the evaluator begins with its last collective"),
    pair("an evaluator evaluates for longer than its lease, and the rank that trains waits for it",
         "lease_overrun, critical, rank 1",
         learner(inside, 1805.0), generator(1805.0, **{**EVAL, **OLD}), "in eval for 1805.0 s (lease 1800 s)"),
    pair("a rank replaces a failed one, and the others wait for it", "quiet",
         learner(inside, 60.0, step_seconds_total=600.0), generator(60.0, open_seconds=65.0)),
    pair("a rank is late for its first step, and the others wait in their first collective", "quiet",
         learner(inside, 600.0, steps=0, step=1, lease_seconds=1800.0, overdue_seconds=0.0, sequences={"0": 1}),
         generator(600.0, sequences={"0": 0})),
    pair("a rank is late for its first step, and the others have taken many without it", "quiet",
         learner(inside, 600.0, step_seconds_total=60.0), generator(600.0, sequences={}),
         note="no collective has waited for it, so it may load"),
)  # fmt: skip
