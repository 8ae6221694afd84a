"""A capsule as a hub makes one: a stall of rank 2 of four, unless a test says otherwise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.build import NOW, finding, rank_state, snapshot, step_record, waiting
from zmon.hub.incidents import capsule, moments, steps
from zmon.schema.finding import Finding
from zmon.schema.incident import Capsule
from zmon.schema.snapshot import Snapshot

EVIDENCE = {
    "stacks": {"2": {"stack": 'File "train.py", line 12 in guilty_line', "wchan": "futex_wait", "stack_error": None}},
    "stderr_tail": {"2": {"text": "step 99\nlast line\n", "error": None, "path": "/logs/err", "shared": False}},
    "in_flight": {"0": {"pending": [], "num_pending": 0, "last": {"gloo:0": 300}}},
}


def stalled() -> Snapshot:
    """Rank 2 is stopped, the others wait for it."""
    return snapshot(rank_state(2, process_state="T"), *(waiting(rank, 1.0) for rank in (0, 1, 3)))


def runs(of: Snapshot, number: int = 3, slow: int = 2) -> list[steps.Kept]:
    """So many steps of each rank, those of one rank twice as long."""
    return [
        steps.kept(
            r,
            [
                step_record(n, {"forward": 0.02 if r.rank == slow else 0.01}, start=float(n))
                for n in range(1, number + 1)
            ],
            NOW - 1000,
        )
        for r in of.known
    ]


def made(about: Finding | None = None, of: Snapshot | None = None, **changes: Any) -> tuple[Capsule, bytes]:
    """A capsule and its steps."""
    about = finding(evidence=EVIDENCE) if about is None else about
    of = stalled() if of is None else of
    kept = runs(of)
    whole = capsule(about, of, kept, (), {"hub": "0.1.0"}, NOW + 3, 0.5)
    return replace(whole, timeline=moments.in_order(moments.begun(about)), **changes), steps.lines(kept)[0]
