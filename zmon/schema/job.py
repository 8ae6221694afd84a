"""The view of one job, for the terminal, the dashboard and other programs, and the lines about what they do not see."""

from __future__ import annotations

from dataclasses import dataclass, field

from zmon.format import clock, dated, duration, sentence
from zmon.schema.curve import Efficiency
from zmon.schema.names import run_page
from zmon.schema.pause import HealedPause

_SOURCES = {"loader": "the DataLoader", "model": "the input of the model"}
EXITED = "exited"  # the state of a job whose processes are gone
RECORDED, PREDICTED = "recorded", "predicted"


@dataclass(frozen=True, slots=True)
class ExpectedStep:
    """The expected step of a job and its current step."""

    by: str  # RECORDED or PREDICTED
    name: str  # name of the scaling curve
    seconds: float
    causes: dict[str, float]  # own (self time), imbalance, and each op; they sum to `seconds`
    now_seconds: float
    now_causes: dict[str, float]

    @property
    def grown(self) -> list[tuple[str, float]]:
        """The seconds by which each part is longer now than expected, the largest first."""
        parts = dict.fromkeys((*self.causes, *self.now_causes))
        longer = [(part, self.now_causes.get(part, 0.0) - self.causes.get(part, 0.0)) for part in parts]
        return sorted(longer, key=lambda item: -item[1])


@dataclass(frozen=True, slots=True)
class Utilization:
    """The work of all ranks, relative to the peak of all their devices."""

    source: str  # where the numbers of operations come from, see FLOPS_SOURCES: the least certain of the ranks
    flops_per_second: float  # of all ranks, over the recent steps
    peak_flops: float  # of all devices, per second
    step_ratio: float  # of the peak, over the recent steps
    wall_ratio: float | None  # of the peak, over the wall-clock time of all launches; None: no time passed yet
    memory_ratio: float | None = None  # of the memory bandwidth, over the recent steps; None: unknown traffic or peak
    # Of the roofline: min(peak, bandwidth × operations ÷ byte) (Williams, Waterman & Patterson 2009).
    roofline_ratio: float | None = None
    memory_bound: bool | None = None  # True: the bandwidth limits the job, not the peak of its operations
    uncounted: str = ""  # what the count of operations leaves out


@dataclass(frozen=True, slots=True)
class GpuActivity:
    """The activity of all GPUs of a job, as they measure it themselves."""

    tensor_ratio: float  # share of time in which the tensor cores worked, in the last minute of training
    tensor_wall_ratio: float | None  # the same over wall-clock time, restarts included; None: no time passed yet
    memory_ratio: float | None = None  # traffic of the memory ÷ its bandwidth, in the last minute of training


@dataclass(frozen=True, slots=True)
class TimeLeft:
    """The seconds that a job still needs if it goes on as in its last hour."""

    seconds: float
    fastest_seconds: float  # at the pace of the fastest quarter of that hour
    slowest_seconds: float

    @property
    def text(self) -> str:
        """The time left and its interval, for people."""
        return f"{duration(self.seconds)} left ({duration(self.fastest_seconds)} to {duration(self.slowest_seconds)})"


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a job to its planned last step."""

    planned_steps: int  # the number of the last step, as the job counts its steps
    step: int
    left: TimeLeft | None = None  # None: unknown, or there is nothing left to do
    unknown: str = ""  # when or until when the time left is unknown

    @property
    def ratio(self) -> float:
        """The share of the planned steps."""
        return min(self.step / self.planned_steps, 1.0)

    @property
    def steps_text(self) -> str:
        """The step and its share of the plan, which is 100 % only at the end."""
        return f"{self.step:,} of {self.planned_steps:,} ({int(self.ratio * 100)} %)"

    @property
    def left_text(self) -> str:
        """The time left, or that it is unknown; empty if there is nothing left to do."""
        if self.left:
            return f"about {self.left.text}"
        return f"time left unknown {self.unknown}" if self.unknown else ""

    @property
    def text(self) -> str:
        """The progress in one line."""
        return ", ".join(part for part in (f"step {self.steps_text}", self.left_text) if part)


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
class Headline:
    """The condition of a job in one word and one line. Times are unix seconds; the line has no age of its own."""

    word: str  # for example HEALTHY, STALLED, FAILED
    urgency: str  # critical, warning, ok, info (the job has ended) or unknown; a newer hub may have others
    line: str
    finding: str | None = None  # id of the finding that it is about
    as_of: float | None = None  # when the line was written, if the finding has figures that grow
    ended: float | None = None  # when the launch ended that the line is about

    @property
    def is_urgent(self) -> bool:
        """True if somebody should look at the job."""
        return self.urgency in ("critical", "warning")

    def text(self, now: float) -> str:
        """Return the line with its age."""
        if self.ended is not None:
            return f"{self.line} ({duration(now - self.ended)} ago)"
        return dated(self.line, self.as_of, now)


UNKNOWN_STATE = Headline("UNKNOWN", "unknown", "the hub does not know the state of this job")
NO_JOB = Headline("NO JOB", "none", "no training job is known; start one with `zmon run -- CMD` or `zmon demo`")
BLIND = Headline("BLIND", "blind", "zmon does not see everything: the job may be healthy or stalled")


@dataclass(frozen=True, slots=True)
class JobView:
    """The view of one job, as `GET /api/v1/jobs` returns it."""

    job_id: str
    attempt: int
    world_size: int
    ranks_seen: int
    state: str  # the activity of most ranks, or: stalled, exited, unknown
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
    uncompared: str = ""  # why the times of its ranks are not compared; "": they are
    progress: Progress | None = None  # None: the job did not say how many steps it has
    headline: Headline = UNKNOWN_STATE  # the hub adds it to its answer; on disk and from an older hub it is unknown

    @property
    def run_page(self) -> str:
        """The URL of the run's page at its experiment tracker; empty if it is unknown."""
        return run_page(self.labels)

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


def unseen(
    *, hub_error: str = "", hub_is_blind: bool = False, as_of: float | None = None, prometheus_error: str = ""
) -> tuple[str, ...]:
    """Return a line for each server that a screen lacks: one that does not answer, or a hub that no agent answers.

    `as_of` is the time of the last known state of a blind hub. The lines have no age, so that they do not change while
    somebody reads them.
    """
    lines = []
    if hub_error:
        lines.append(f"{sentence(hub_error)} Until then no culprit is known.")
    if hub_is_blind:
        known = "" if as_of is None else f", as of {clock(as_of)}"
        lines.append(f"The hub reaches no agent: this is its last known state{known}. Is `zmon agent` running?")
    if prometheus_error:
        lines.append(f"{sentence(prometheus_error)} Until then charts and ranks are unknown.")
    return tuple(lines)
