"""The truth about each fault: what struck whom, when, and what zmon may report about it.

A fault of a random composition writes its truth to a file before zmon is asked about it.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from lab.drills.drill import Drill, Fault, Injection, Scene


class TrueFault(msgspec.Struct, frozen=True):
    """The truth about one fault: what struck whom, when, and what zmon may report about it."""

    job: str
    fault: str
    rank: int | None  # the rank that a finding may name; None: none
    host: str
    time: float  # unix seconds
    causes: tuple[str, ...] = ()  # none: the fault is harmless
    may_warn: tuple[str, ...] = ()  # causes of warnings that are true while it lasts


def recorded(element: Drill, path: Path) -> Fault:
    """Return the fault of a drill, which then appends the truth about itself to a file of JSON lines."""

    def inject(scene: Scene) -> Injection:
        injection = element.fault(scene)
        with path.open("ab") as file:
            file.write(msgspec.json.encode(true_fault(element, scene, injection)) + b"\n")
        return injection

    return inject


def true_fault(drill: Drill, scene: Scene, injection: Injection) -> TrueFault:
    """Return the truth about the fault of a drill that was caused."""
    struck = injection.rank if injection.rank is not None else scene.rank
    return TrueFault(
        job=scene.job.spec.job_id,
        fault=drill.name,
        rank=struck if drill.culprit == "rank" else None,
        host=injection.host or scene.host,
        time=injection.onset,
        causes=drill.causes,
        may_warn=drill.may_warn,
    )


def read_truth(path: Path, job_id: str, since: float) -> tuple[TrueFault, ...]:
    """Return the faults that struck a job since that time; a resumed session uses the names of its jobs again."""
    lines = path.read_bytes().splitlines() if path.exists() else []
    faults = (msgspec.json.decode(line, type=TrueFault) for line in lines)
    return tuple(fault for fault in faults if fault.job == job_id and fault.time >= since)
