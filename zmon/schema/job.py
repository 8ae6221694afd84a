"""One job as people see it, at the terminal, in the dashboard and in programs of their own. Frozen data only."""

from __future__ import annotations

from dataclasses import dataclass, field

from zmon.schema.curve import Efficiency
from zmon.schema.expected import Expected


@dataclass(frozen=True, slots=True)
class JobView:
    """One job as people see it: `GET /api/v1/jobs`."""

    job_id: str
    attempt: int
    world_size: int
    ranks_seen: int
    state: str
    step: int | None
    step_seconds: float | None  # median of the recent steps
    step_seconds_p95: float | None
    samples_per_second: float | None
    report: dict[str, float | None]
    time: dict[str, float]  # wall-clock seconds by cause, over all its starts
    hosts: tuple[str, ...]
    labels: dict[str, str]
    findings: tuple[str, ...]  # ids of the active ones
    gpu_seconds: dict[str, float] = field(default_factory=dict)  # as `time`, of all ranks together
    goodput_ratio: float | None = None  # time in steps that were kept, of wall-clock
    goodput_unknown: str = ""  # why it is not known
    efficiency: Efficiency | None = None  # against what was recorded of jobs of its name
    efficiency_unknown: str = ""  # why it is not known
    expected: Expected | None = None  # what a step should take
    expected_unknown: str = ""  # why nobody can tell
