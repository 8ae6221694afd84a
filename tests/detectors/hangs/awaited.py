"""Rows of jobs in which ranks wait for a rank that is in no collective, by what Python sees of the ranks."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tests.build import finished, flight, killed, pending, rank_state, waiting
from tests.detectors.hangs.looks import DOWNLOADS, SPINS
from tests.detectors.stalls import Row, inside, job, outside

PAIR = {"group": "tp", "sequence": 41, "sequences": {"0": 300, "tp": 41}}
BEHIND = {"0": 300, "tp": 40}  # it has not entered the collective of its pair
AHEAD = {"0": 301}
GPU_BEHIND = {"sequences": {"0": 300}, "device": "GPU-3"}
COMPILES = {
    "phase": "forward", "step": 1, "steps": 0, "lease_seconds": 1800.0, "overdue_seconds": 0.0, "sequences": {"0": 3},
}  # fmt: skip
EVALUATES = {"activity": "eval", "lease_seconds": 1800.0, "overdue_seconds": 0.0}


def on_gpu(rank, count=300):
    """Return a rank on a GPU, which issues collectives and goes on."""
    return outside(rank, sequences={"0": count}, device=f"GPU-{rank}")


def sends(rank):
    """Return a rank inside a `send`."""
    return inside(rank, "send", 0)


def first(rank, seconds=120.0, **changes):
    """Return a rank in its first steps, inside a collective; its lease has not ended."""
    start = {"step": 1, "steps": 0, "lease_seconds": 1800.0, "overdue_seconds": 0.0}
    return inside(rank, **{"sequence": 1, "seconds": seconds, **start, **changes})


def starts(standing, *ranks, seconds=120.0):
    """Return a job whose ranks are inside their first collective, and what the hub saw of two of them."""
    return job(
        *ranks, rest=partial(first, seconds=seconds), standing={} if standing is None else {0: SPINS, 1: standing}
    )


STARTS = (
    Row("all ranks are inside their first collective for 119 s", "quiet", starts(SPINS, seconds=119.0)),
    Row("all ranks are inside their first collective for 120 s", "unknown, warning, nobody", starts(SPINS),
        "every rank is inside a collective … it becomes critical when the leases end",
        "the hosts may not reach each other"),
    Row("all ranks are inside their first collective for 5 min, and one moves data", "quiet",
        starts(DOWNLOADS, seconds=300.0)),
    Row("all ranks are inside their first collective for 5 min, and the hub has looked at none", "quiet",
        starts(None, seconds=300.0)),
    Row("all ranks but one are inside their first collective for 5 min, and that one compiles", "quiet",
        starts(SPINS, outside(3, **COMPILES), seconds=300.0)),
    Row("the ranks are inside the first collectives of two groups for 5 min", "quiet",
        starts(SPINS, first(2, 300.0, group="tp"), first(3, 300.0, group="tp"), seconds=300.0)),
    Row("all ranks are inside one collective of an evaluation for 120 s", "unknown, warning, nobody",
        job(rest=partial(first, activity="eval", activity_seconds=130.0, sequence=9, steps=300), standing={0: SPINS})),
)  # fmt: skip
AWAITED = (
    Row("one rank waits for its data loader", "input_stall, warning, rank 2", job(outside(2, "data")),
        "3 of 4 ranks wait"),
    Row("one rank computes", "compute_hang, warning, rank 0", job(outside(0, "backward")),
        "has been in no collective for 5.0 s (phase backward)"),
    Row("one rank computes before its first collective", "compute_hang, warning, rank 2",
        job(outside(2, sequences={}))),
    Row("one rank computes before its first collective, and the others wait in a group of their own",
        "unknown, warning, nobody", job(outside(2, sequences={}), rest=partial(inside, group="tp")),
        note="it may not be in that group"),
    Row("two ranks compute", "compute_hang, warning, ranks 0, 3", job(outside(0), outside(3, "optimizer")),
        "have been in no collective for 5.0 s (phases forward, optimizer)"),
    Row("all ranks wait for their data loaders", "input_stall, warning, ranks 0, 1, 2, 3",
        job(rest=partial(outside, phase="data")),
        "have waited for their data loader for 5.0 s; no rank is in a collective"),
    Row("one rank reads and one computes", "unknown, warning, nobody", job(outside(1, "data"), outside(2))),
    Row("one rank computes, and one issued the collective before it computed", "compute_hang, warning, rank 1",
        job(outside(1), outside(3, sequences=AHEAD))),
    Row("one rank computes after the collective of most others, and one is a collective ahead",
        "compute_hang, warning, rank 1",
        job(inside(0, sequence=302), outside(1, sequences=AHEAD), rest=inside)),
    Row("one rank computes, and has issued the collective in which the others wait", "unknown, warning, nobody",
        job(outside(3, sequences=AHEAD)), note="the collective is asynchronous, so nobody waits for the rank"),
    Row("a rank does not come to a barrier", "compute_hang, warning, rank 2",
        job(outside(2), rest=partial(inside, op="barrier", num_bytes=0))),
    Row("a pair waits for one of its two ranks, and the others wait for the pair", "compute_hang, warning, rank 1",
        job(inside(0, **PAIR), outside(1, sequences=BEHIND), rest=inside), note="it is the end of the chain"),
    Row("a pair waits for one of its two ranks, which reads, and the others wait for the pair",
        "input_stall, warning, rank 1", job(inside(0, **PAIR), outside(1, "data", sequences=BEHIND), rest=inside)),
    Row("a pair is in a collective, and the ranks outside the pair are in none", "unknown, warning, nobody",
        job(inside(0, **PAIR), inside(1, **PAIR), rest=outside)),
    Row("one rank of a pipeline neither sends nor receives", "compute_hang, warning, rank 1",
        job(sends(0), outside(1), rest=partial(inside, op="recv", sequence=0)), note="send and recv have no count"),
    Row("two ranks of a pipeline neither send nor receive", "unknown, warning, nobody",
        job(sends(0), outside(1), outside(2), inside(3, "recv", 0))),
    Row("all ranks of a pipeline send or receive", "unknown, warning, nobody",
        job(sends(0), sends(2), rest=partial(inside, op="recv", sequence=0)),
        "every rank is inside a collective: ranks 0, 2 in `send`, ranks 1, 3 in `recv`"),
    Row("all ranks send, and none receives", "unknown, warning, nobody", job(rest=sends),
        "every rank is inside `send` and none inside `recv`: a deadlock, unless they issued those before"),
    Row("all ranks that zmon sees send", "unknown, warning, nobody", job(sends(0), sends(1), rest=None),
        "every rank that zmon sees is inside `send`; they may wait for a rank that zmon does not see"),
    Row("all ranks are in the same collective", "unknown, warning, nobody", job(), "every rank is inside a collective"),
    Row("all ranks are in the backward pass", "unknown, warning, nobody", job(rest=partial(outside, phase="backward")),
        "no rank has finished a step for 5.0 s … (lease 1.5 s) … rank 3 (backward)", "they may wait in C++"),
    Row("one rank on a GPU computes, without flight records", "unknown, warning, nobody",
        job(replace(outside(2), device="GPU-2"), rest=lambda rank: waiting(rank, device=f"GPU-{rank}"))),
    Row("one rank computes, and one is on a host without an agent", "unknown, warning, nobody",
        job(waiting(0), waiting(1), outside(2), rest=None),
        "they may wait for a rank that zmon does not see (1 of 4)", "the unwatched rank may be the culprit"),
    Row("all ranks that zmon sees are in the same collective", "unknown, warning, nobody",
        job(waiting(0), waiting(1), rest=None),
        "every rank that zmon sees is inside a collective; they may wait for a rank that zmon does not see (2 of 4)"),
    Row("the job stands still for 66 s, and a rank has loaded for the last 60 s", "input_stall, critical, rank 2",
        job(outside(2, "data", step_seconds=66.0, state_seconds=60.0), rest=partial(waiting, seconds=66.0))),
    Row("the job stands still for 66 s, and the rank that hung has just begun to load", "compute_hang, warning, rank 2",
        job(outside(2, "data", step_seconds=66.0, state_seconds=0.4), rest=partial(waiting, seconds=66.0))),
    Row("the ranks are past the lease of one of them, and the others have longer ones", "unknown, warning, nobody",
        job(waiting(0), rest=partial(waiting, lease_seconds=9.0, overdue_seconds=0.0)),
        note="all ranks take the same steps, and rank 0 may have saved for them"),
    Row("the ranks are past the lease of a rank that has taken few steps", "quiet",
        job(waiting(0, steps=9), rest=partial(waiting, lease_seconds=9.0, overdue_seconds=0.0)),
        note="it has had no pause yet"),
    Row("the ranks are past the lease of a rank that steps faster than the others", "quiet",
        job(waiting(0), rest=partial(waiting, lease_seconds=9.0, overdue_seconds=0.0, step_seconds_total=60.0)),
        note="ranks that do not step together, as in local SGD"),
    Row("the ranks wait for less than their lease", "quiet", job(rest=partial(waiting, seconds=1.4))),
    Row("all ranks train", "quiet", job(rest=rank_state)),
    Row("one rank finishes steps, and the others wait", "quiet", job(rank_state(3))),
    Row("all ranks compile their first step", "quiet", job(rest=partial(outside, **COMPILES))),
    Row("one rank compiles its first step", "quiet", job(outside(0, **COMPILES), rest=partial(waiting, seconds=60.0))),
    Row("all ranks wait for 60 s in their first step", "quiet",
        job(rest=partial(waiting, seconds=60.0, step=1, lease_seconds=1800.0, overdue_seconds=0.0))),
    *STARTS,
    Row("one rank evaluates, and the others wait at a barrier", "quiet",
        job(outside(0, **EVALUATES), rest=partial(waiting, seconds=20.0, op="barrier"))),
    Row("one rank saves, and the others wait at a barrier", "quiet",
        job(outside(0, **{**EVALUATES, "activity": "checkpoint"}), rest=partial(waiting, seconds=20.0, op="barrier"))),
    Row("all ranks evaluate", "quiet", job(rest=partial(outside, step_seconds=600.0, **EVALUATES))),
)  # fmt: skip


def left(gone, **changes):
    """Return a job that may restart, in which the last rank left `gone` seconds ago."""
    restarts = {"max_restarts": 2, "restart_count": 0}
    return job(finished(3, gone, activity_seconds=gone, **restarts, **changes),
               rest=partial(waiting, seconds=9.0, **restarts))  # fmt: skip


LIVES = {"alive": True, "exit_status": None}
# A rank that has left its process group, and whose process lives.
RESTS = {"activity": "done", "step_seconds": 100.0, "lease_seconds": None, "overdue_seconds": 0.0}
FINISHED = (
    Row("a rank leaves, and the others wait for it", "uneven_end, critical, rank 3", job(finished(3, 60.0)),
        "rank 3 on node-a left cleanly after 100 steps while the others went on"),
    Row("one rank goes on after all others have left", "uneven_end, critical, rank 3",
        job(*map(finished, (0, 1, 2))), note="it has one batch more than the others"),
    Row("a rank left 5 s ago, and the launcher may restart", "uneven_end, warning, rank 3", left(5.0)),
    Row("a rank left 60 s ago, and the launcher should have restarted", "uneven_end, critical, rank 3", left(60.0)),
    Row("a rank left 5 s ago, its process lives, and the launcher may restart", "uneven_end, warning, rank 3",
        left(5.0, **LIVES)),
    Row("a rank left 60 s ago, its process lives, and the launcher should have restarted",
        "uneven_end, critical, rank 3", left(60.0, **LIVES)),
    Row("a rank leaves on GPUs, where no rank is inside a collective", "uneven_end, critical, rank 3",
        job(finished(3, 60.0, **GPU_BEHIND), rest=partial(on_gpu, count=302)), "3 of them wait in a collective"),
    Row("a rank leaves on GPUs after as many collectives as the others", "unknown, warning, nobody",
        job(finished(3, 60.0, **GPU_BEHIND), rest=on_gpu)),
    Row("a rank has left, and it entered the collective of the others", "unknown, warning, nobody",
        job(finished(3, 60.0, sequences=AHEAD)), "rank 3 on node-a has finished"),
    Row("a rank has left that is not in the group of the others", "unknown, warning, nobody",
        job(finished(3, 60.0, sequences={}))),
    Row("all ranks are done, and their processes live", "quiet",
        job(rest=partial(outside, **RESTS))),
    Row("one rank has left its process group and goes on for 100 s, and all others have ended", "quiet",
        job(outside(0, **RESTS), rest=partial(finished, gone=90.0)), note="it exports the model"),
    Row("a rank has left its process group, and the others wait for it", "uneven_end, critical, rank 0",
        job(outside(0, **{**RESTS, "activity_seconds": 100.0}), rest=partial(waiting, seconds=100.0))),
)  # fmt: skip


def goes_on(rank, seconds, **changes):
    """Return a rank that has been in no collective and in no step for this time."""
    times = {"step_seconds": seconds, "state_seconds": seconds, "overdue_seconds": seconds - 1.5}
    return outside(rank, "other", **times, **changes)


def alone(seconds, *rest, device="cpu", **changes):
    """Return a job whose first rank has gone on for this time; the others have finished, but for `rest`."""
    return job(goes_on(0, seconds, device=device), *rest, rest=partial(finished, gone=seconds - 1), **changes)


ALONE = (
    Row("one rank has gone on for 59 s after the others finished", "quiet", alone(59.0),
        note="it uploads a model or writes a report"),
    Row("one rank has gone on for 61 s after the others finished", "compute_hang, warning, rank 0",
        alone(61.0), "all 3 others have finished"),
    Row("one rank has gone on for 299 s after the others finished", "compute_hang, warning, rank 0", alone(299.0)),
    Row("one rank has gone on for 301 s after the others finished", "compute_hang, critical, rank 0", alone(301.0)),
    Row("two ranks have gone on for 59 s after the others finished", "quiet", alone(59.0, goes_on(1, 59.0))),
    Row("one rank, on a GPU, has gone on for 59 s after the others finished", "quiet", alone(59.0, device="GPU-0")),
    Row("two ranks, on GPUs, have gone on for 59 s after the others finished", "unknown, critical, nobody",
        alone(59.0, goes_on(1, 59.0, device="GPU-1"), device="GPU-0"), note="they may wait for each other"),
    Row("one rank has gone on for 30 s, and its flight record has nothing pending", "quiet",
        alone(30.0, flights={0: flight()})),
    Row("one rank has gone on for 30 s, and its flight record has a collective pending", "unknown, critical, nobody",
        alone(30.0, flights={0: flight(pending(301))})),
    Row("one rank has gone on for 30 s, and another one waits for those that left", "uneven_end, critical, ranks 2, 3",
        alone(30.0, inside(1, sequences=AHEAD, seconds=30.0))),
    Row("one rank has gone on for 30 s, and another one was killed", "rank_exited, critical, rank 3",
        alone(30.0, killed(3, 29.0))),
)  # fmt: skip


def away(rank, activity, seconds=905.0, lease=900.0, **changes):
    """Return a rank in another activity, past its lease."""
    times = {"activity_seconds": seconds, "state_seconds": seconds, "overdue_seconds": seconds - lease}
    return outside(rank, activity=activity, lease_seconds=lease, **times, **changes)


def worker(rank, **changes):
    """Return a worker of a parameter server: it has no optimizer, so it has the lease of a start for ever."""
    start = {"steps": 0, "lease_seconds": 1800.0, "overdue_seconds": 0.0, "step_seconds": 900.0}
    return inside(rank, "broadcast", 301, **{**start, **changes})


HUNG = replace(worker(2), in_flight=None, sequences={"0": 300})
SAVED = {**EVALUATES, "activity": "checkpoint", "op": "barrier", "seconds": 25.0}
SAVED_AND_HUNG = {"step_seconds": 25.0, "state_seconds": 25.0, "overdue_seconds": 23.5}
LEASES = (
    *(Row(f"a rank {did} and waits at a barrier for one that hangs", "compute_hang, critical, rank 0",
          job(outside(0, **SAVED_AND_HUNG), waiting(1, **{**SAVED, "activity": activity}),
              rest=partial(waiting, seconds=25.0, op="barrier")))
      for did, activity in (("has saved", "checkpoint"), ("has evaluated", "eval"))),
    Row("a rank has saved and waits at a barrier for ranks of which one still saves", "quiet",
        job(outside(0, **{**EVALUATES, "activity": "checkpoint"}), waiting(1, **SAVED),
            rest=partial(outside, **SAVED_AND_HUNG))),
    Row("a rank has saved, and another one is the first to leave the barrier behind the save", "quiet",
        job(outside(0, **{**SAVED_AND_HUNG, "state_seconds": 0.0}), waiting(1, **{**SAVED, "seconds": 0.1}),
            rest=partial(waiting, seconds=25.0, op="barrier"))),
    Row("a rank has saved and waits at a barrier for ranks that train", "quiet",
        job(waiting(1, **SAVED), rest=partial(outside, step_seconds=1.0, overdue_seconds=0.0))),
    *(Row(f"one rank is in {activity} for longer than its lease", "lease_overrun, critical, rank 1",
          job(away(1, activity), rest=partial(waiting, seconds=905.0)),
          f"rank 1 on node-a has been in {activity} for 905.0 s (lease 900 s), and the others wait")
      for activity in ("init", "eval", "checkpoint")),
    Row("all ranks are in init, and one never started", "lease_overrun, critical, nobody",
        job(*(away(rank, "init", 1805.0, 1800.0, step=0) for rank in range(3)), rest=None),
        "rank 3 never started; all others have been in init for 1805.0 s (lease 1800 s)"),
    Row("one rank saves for too long, and one is missing", "lease_overrun, critical, rank 1",
        job(waiting(0, 905.0), away(1, "checkpoint"), waiting(2, 905.0), rest=None)),
    Row("one rank saves for a second time, and its lease is short", "lease_overrun, warning, rank 0",
        job(away(0, "checkpoint", 12.0, 10.0, step_seconds=902.0), rest=partial(waiting, seconds=902.0)),
        "critical after 20 s", "the time since it began counts, not the time since the last step"),
    Row("all ranks evaluate for longer than their lease", "unknown, critical, nobody",
        job(rest=partial(waiting, seconds=1805.0, activity="eval", activity_seconds=1805.0, lease_seconds=1800.0,
                         overdue_seconds=5.0))),
    Row("a parameter server hangs, and its workers finish no steps", "compute_hang, warning, rank 0",
        job(outside(0), rest=worker)),
    Row("a worker of a parameter server hangs", "compute_hang, warning, rank 2",
        job(inside(0, "broadcast"), HUNG, rest=worker)),
    Row("a rank still starts, and the others wait for it", "quiet",
        job(replace(HUNG, sequences={"0": 3}, state_seconds=60.0), rest=partial(inside, seconds=60.0)),
        note="it entered only the collectives of a start"),
)  # fmt: skip
