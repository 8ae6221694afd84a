"""Rows of jobs after their training: the ranks are outside the loops around their steps."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tests.build import rank_state, waiting
from tests.detectors.hangs.looks import SAVES, SLEEPS, SPINS, awaited, locked, served
from tests.detectors.hangs.one_rank import one, only
from tests.detectors.stalls import Row, job, outside

HUNG, ALONE = "compute_hang, {}, rank 2", "compute_hang, {}, rank 0"
PROMPT = locked(40.0, ("pipe_read",), in_debugger=True)


def left(standing, seconds=60.0, phase="other", **changes):
    """Return a job of one rank, which is outside its loop, and what else the hub saw of it."""
    return one(only(phase, seconds, **changes), standing, outside_loops=frozenset({0}))


def reports(*ranks, seconds=60.0, standing=SPINS, inside="other", **changes):
    """Return a job that waits for rank 2, whose last step was `seconds` ago; these ranks are outside their loops.

    The others wait in the phase `inside`.
    """
    base = awaited(standing, seconds, **{"phase": "other", **changes})
    waiters = tuple(replace(r, phase=inside) if r.in_flight else r for r in base.ranks)
    return replace(base, ranks=waiters, outside_loops=frozenset(ranks))


def on_gpus(*ranks, seconds=60.0):
    """Return a job on GPUs, of which these ranks are outside their loops."""
    rest = partial(outside, phase="other", device="GPU-0", step_seconds=seconds, state_seconds=seconds)
    return job(rest=rest, standing={2: SPINS}, outside_loops=frozenset(ranks))


AFTER_TRAINING = (
    Row("the only rank writes a report for 60 s", "quiet", left(SPINS)),
    Row("the only rank sleeps for 60 s after its loop", "quiet", left(SLEEPS)),
    Row("the only rank came to its place after the last look at it", "quiet", left(None),
        note="what the hub knows is about another place"),
    Row("the only rank writes a report for half an hour after its lease", ALONE.format("critical"), left(SPINS, 1802.0),
        "critical 30 min after the end of the leases"),
    Row("the only rank stands still for 60 s in its training loop", ALONE.format("critical"),
        one(only(seconds=60.0), SPINS)),
    Row("the only rank stands in the forward pass, outside the loop of its steps", ALONE.format("critical"),
        left(SPINS, phase="forward"), note="perhaps in another loop, in which no step has ended yet"),
    Row("the only rank goes through forward passes after its loop", "quiet",
        left(None, phase="forward", state_seconds=1.0),
        note="it evaluates in training mode, or is in the first step of another loop"),
    Row("the only rank waits for a lock after its loop", ALONE.format("critical"), left(locked(40.0)),
        "it waits for a lock, a pipe or a child"),
    Row("the only rank waits for a server after its loop", ALONE.format("critical"), left(served(40.0))),
    Row("the only rank stands at the prompt of a debugger after its loop", ALONE.format("critical"), left(PROMPT)),
    Row("the hub began to ask for the place of the only rank a moment ago", "quiet", one(only(seconds=2.4), None)),
    Row("a hub that has just started asks for the place of the only rank", "quiet",
        one(only(seconds=60.0), None, known_seconds=0.9)),
    Row("the hub asked for the place of the only rank, and had no answer within a second", ALONE.format("warning"),
        one(only(seconds=2.6), None)),
    Row("the only rank is in its loop, as an answer shows", ALONE.format("warning"), one(only(seconds=2.0), SPINS)),
    Row("one rank writes a report for 59 s, and the others wait in a barrier after the loop", "quiet",
        reports(2, 0, seconds=59.0)),
    Row("one rank writes a report for 60 s, and the others wait in a barrier after the loop", HUNG.format("warning"),
        reports(2, 0), "it has left the training loop … critical after 5 min"),
    Row("one rank writes a report for 5 min, and the others wait in a barrier after the loop", HUNG.format("critical"),
        reports(2, 0, seconds=300.0)),
    Row("one rank saves for 5 min, and the others wait in a barrier after the loop", HUNG.format("warning"),
        reports(2, 0, seconds=300.0, standing=SAVES)),
    Row("one rank left its loop, and the others wait in a step", HUNG.format("critical"), reports(2),
        note="also if the hub does not know the places of the others"),
    Row("one rank left its loop, and the others wait in a backward pass", HUNG.format("critical"),
        reports(2, 0, inside="backward")),
    Row("all ranks but one left the loop, and wait for it in a collective", HUNG.format("critical"), reports(0, 1, 3)),
    Row("all ranks, on GPUs, are outside their loops, 59 s after the last step", "quiet",
        on_gpus(0, 1, 2, 3, seconds=59.0)),
    Row("all ranks, on GPUs, are outside their loops, 60 s after the last step", "unknown, warning, nobody",
        on_gpus(0, 1, 2, 3), "all ranks have left the training loop", "one of them may wait for another"),
    Row("three of four ranks on GPUs are outside their loops, and the place of one is not known",
        "unknown, critical, nobody", on_gpus(0, 1, 2)),
    Row("one rank died, and another one writes a report after its loop", "rank_exited, critical, rank 3",
        job(outside(2, "other", step_seconds=60.0, state_seconds=60.0),
            rank_state(3, alive=False, exit_status="SIGKILL", gone_seconds=50.0),
            rest=partial(waiting, seconds=60.0), standing={2: SPINS}, outside_loops=frozenset(range(4)))),
)  # fmt: skip
