"""Define the interface of a stage to a drill: it starts real jobs, and returns what zmon reports to its users.

The stages `host` and `hosts` are a running stack (agents, hub, Prometheus, Alertmanager) with a webhook behind it, on
one host or on four hosts in network namespaces. The stage `watch` has only `zmon watch` for each job. Most drills do
not depend on the stage. A call may block for seconds, but not forever.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec
import psutil

from zmon.schema.act import Intent
from zmon.schema.finding import Finding
from zmon.schema.job import JobView
from zmon.schema.rank import RankState

if TYPE_CHECKING:
    from lab.stage.launched import Launched

JobKind = Literal["trainer", "ddp", "plain"]  # bundled trainer, DDP with zmon.attach(), job that does not import zmon
LauncherName = Literal["torchrun", "mpirun", "spawn", "none"]  # see jobs/without_torchrun.py
PartName = Literal["agent", "hub", "prometheus", "alertmanager"]


@dataclass(frozen=True)
class JobSpec:
    """A job to start. `step_seconds` is the approximate time of a step, most of which is sleep."""

    job_id: str
    kind: JobKind = "ddp"
    ranks: int = 4
    step_seconds: float = 0.02
    steps: int = 0  # 0: until stopped
    checkpoint_steps: int = 0  # every rank saves after this many steps; 0: never
    max_restarts: int = 0
    launcher: LauncherName = "torchrun"
    launchers: int = 1  # torchrun processes on one host, with elastic rendezvous: the job may go on with fewer of them
    seed: int = 1
    # The job handles SIGTERM in Python. A rank in a collective cannot run the handler: only SIGKILL ends it.
    handles_term: bool = False
    slow_start: float = 1.0  # factor on the duration of the first step
    exchange_rate: float = 0.0  # bytes per second of step time that a rank sends to each other rank; 0: the minimum
    row_memory: int = 0  # bytes that a rank of the bundled trainer has for rows, with more on a disk; 0: for all rows


@dataclass(frozen=True)
class ReceivedPage:
    """One alert of one delivery to the webhook. `time` is the arrival in unix seconds."""

    time: float
    alert: str
    status: str  # firing or resolved
    severity: str
    job_id: str | None  # None: about the monitor itself
    summary: str
    labels: dict[str, str]
    fingerprint: str  # identical in all deliveries of one alert
    began: str  # start of the alert according to Prometheus; another start means another alert


class Shown(msgspec.Struct, frozen=True):
    """The fields of a finding that count for the result, as they were published at some time."""

    id: str
    detector: str
    cause: str
    severity: str
    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    detected: float  # unix seconds
    confidence: float


class Stage(Protocol):
    """The running zmon under which drills are played. `close` ends everything that the stage started."""

    @property
    def name(self) -> str:
        """The kind of stage: `host`, `hosts` or `watch`."""

    @property
    def witnesses(self) -> Sequence[PartName]:
        """The parts that a page passes: if one does not answer, a missing page proves nothing. Empty: no pages."""

    @property
    def folder(self) -> Path:
        """The directory of everything that the stage writes; the caller that started the stage removes it."""

    @property
    def policy(self) -> Path | None:
        """The policy by which zmon acts; None: it never acts."""

    def start(self, spec: JobSpec) -> Launched:
        """Start a job and return at once, before it trains."""

    def findings(self, job_id: str | None, active: bool = True) -> list[Finding]:
        """Return the hub's findings about one job, or any, newest first; empty while the hub does not answer."""

    def published(self, job_id: str) -> tuple[Shown, ...]:
        """Return every state in which a finding about one job was published, oldest first."""

    def intents(self) -> tuple[Intent, ...] | None:
        """Return every intent of the hub, newest first; None if it has no policy or does not answer."""

    def forget_acts(self) -> None:
        """Forget the acts so far, because zmon limits their number: an agent permits four acts within an hour."""

    def job(self, job_id: str) -> JobView | None:
        """Return the hub's view of one job, or None if the hub does not know it or does not answer."""

    def ranks(self, job_id: str) -> dict[int, RankState]:
        """Return the states of one job's ranks as the agents report them, by rank."""

    def pages(self) -> list[ReceivedPage]:
        """Return everything that Alertmanager sent since the stage was started, oldest first."""

    def query(self, promql: str) -> list[dict[str, object]]:
        """Return the result vector of a PromQL query; empty while Prometheus does not answer."""

    def part(self, part: PartName, host: str | None = None) -> psutil.Process:
        """Return the process of a part, on `host` if each host has its own. Raises ZmonError if it does not run."""

    def supervisor(self) -> psutil.Process:
        """Return the process that restarts parts when they die. While it is stopped, a dead part stays down."""

    def is_healthy(self, part: PartName) -> bool:
        """Return True if a part answers its health check."""

    def close(self) -> None:
        """End everything; may be called twice."""
