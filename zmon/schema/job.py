"""The view of one job, for the terminal, the dashboard and other programs. Frozen data only."""

from __future__ import annotations

from dataclasses import dataclass, field

from zmon.schema.curve import Efficiency
from zmon.schema.expected import ExpectedStep
from zmon.schema.headline import UNKNOWN_STATE, Headline
from zmon.schema.pause import HealedPause
from zmon.schema.utilization import GpuActivity, Utilization

_SOURCES = {"loader": "the DataLoader", "model": "the input of the model"}
EXITED = "exited"  # the state of a job whose processes are gone


@dataclass(frozen=True, slots=True)
class EndedJob:
    """The end of a job's last launch, if a fault ended it. It stays for a day, or until a newer launch has stepped."""

    time: float  # unix seconds at which the last rank ended, by the hub's clock
    attempt: int
    step: int | None
    finding: str  # id of the finding
    cause: str
    severity: str
    ranks: tuple[int, ...]  # culprits
    hosts: tuple[str, ...]
    summary: str
    detail: str  # what to do next
    runbook: str


@dataclass(frozen=True, slots=True)
class JobView:
    """The view of one job, as `GET /api/v1/jobs` returns it."""

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
    time: dict[str, float]  # wall-clock seconds by time category, over all launches
    hosts: tuple[str, ...]
    labels: dict[str, str]
    findings: tuple[str, ...]  # ids of the active findings
    gpu_seconds: dict[str, float] = field(default_factory=dict)  # like `time`, for all ranks together
    goodput_ratio: float | None = None  # share of wall-clock in steps whose work was kept
    goodput_unknown: str = ""  # why goodput is unknown
    efficiency: Efficiency | None = None  # against the scaling curve of the job's name
    efficiency_unknown: str = ""  # why efficiency is unknown
    expected: ExpectedStep | None = None  # the expected step
    expected_unknown: str = ""  # why the expected step is unknown
    pauses: tuple[HealedPause, ...] = ()  # pauses that ended by themselves in the last day, the longest first
    samples_source: str = ""  # where the numbers of samples come from, see SAMPLES_SOURCES; "": unknown
    utilization: Utilization | None = None  # relative to the peak of its devices
    utilization_unknown: str = ""  # why it is unknown
    gpu_activity: GpuActivity | None = None  # None: a GPU does not measure it, or the job has not trained long enough
    ended: EndedJob | None = None  # None: no fault ended it, or a newer launch has stepped since
    headline: Headline = UNKNOWN_STATE  # the hub adds it to its answer; on disk and from an older hub it is unknown

    @property
    def has_failed(self) -> bool:
        """True if a fault ended the job, and none of its processes is left."""
        return self.ended is not None and self.state == EXITED

    @property
    def is_affected(self) -> bool:
        """True if the job has an open finding, or a fault ended its last launch."""
        return bool(self.findings or self.ended)

    @property
    def samples_inference(self) -> str:
        """The source of inferred samples, for people; empty if the job reports them, or if they are unknown."""
        source = self.samples_source
        if source in ("", "declared"):
            return ""
        return f"inferred from {_SOURCES.get(source, source)}"
