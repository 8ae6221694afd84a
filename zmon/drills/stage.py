"""What a stage offers to a drill: real jobs to strike, and the eyes and ears of the people who would be woken.

A stage is a standing stack (agent or agents, hub, Prometheus, Alertmanager) with a webhook behind it. A drill knows
nothing of how it is built: one host, or four in network namespaces. All calls may block for seconds, none for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import psutil

from zmon.schema.finding import Finding
from zmon.schema.job import JobView
from zmon.schema.rank import RankState

JobKind = Literal["trainer", "ddp", "plain"]  # the bundled trainer · DDP with zmon.attach() · never imports zmon
PartName = Literal["agent", "hub", "prometheus", "alertmanager"]


@dataclass(frozen=True)
class JobSpec:
    """A job to start. `step_seconds` is about the time of a step, most of it spent asleep."""

    job_id: str
    kind: JobKind = "ddp"
    ranks: int = 4
    step_seconds: float = 0.02
    steps: int = 0  # 0: until stopped
    checkpoint_steps: int = 0  # every rank saves after so many steps; 0: never
    max_restarts: int = 0
    launchers: int = 1  # on the same host, with elastic rendezvous: the job may go on with fewer of them
    seed: int = 1
    slow_start: float = 1.0  # × the first step
    exchange_rate: float = 0.0  # bytes that a rank sends to each other one, a second of a step; 0: a few


@dataclass(frozen=True)
class ReceivedPage:
    """One alert of one delivery to the webhook. `time` is unix seconds on arrival."""

    time: float
    alert: str
    status: str  # firing or resolved
    severity: str
    job_id: str | None  # None: about the monitor itself
    summary: str
    labels: dict[str, str]
    fingerprint: str  # the same for every delivery of one alert
    began: str  # when Prometheus says that the alert began: another time is another alert


class Job(Protocol):
    """A training job that runs, or ran."""

    @property
    def spec(self) -> JobSpec:
        """What was asked for."""

    @property
    def folder(self) -> Path:
        """Its own directory, the same for all ranks: the orders of the drill, checkpoints, logs."""

    @property
    def launchers(self) -> Sequence[int]:
        """Pids of the torchrun processes, rank 0's first."""

    def exit_code(self) -> int | None:
        """Of the first launcher; None while it runs."""

    def signal(self, number: int, launcher: int = 0) -> None:
        """As its owner would, to a launcher by its index; nothing happens where that has ended."""

    def end(self) -> None:
        """End it with everything it started, whatever state that is in; may be called twice."""


class Stage(Protocol):
    """Where drills are played. Use it as a context manager: leaving it ends all that it started."""

    @property
    def name(self) -> str:
        """`host` or `hosts`."""

    @property
    def folder(self) -> Path:
        """Where everything it writes lies; removed by whoever made the stage."""

    def start(self, spec: JobSpec) -> Job:
        """Start a job; it does not wait until it trains."""

    def findings(self, job_id: str | None, active: bool = True) -> list[Finding]:
        """The hub's findings about one job, or any, newest first; none while the hub does not answer."""

    def job(self, job_id: str) -> JobView | None:
        """The hub's view of one job; None: it knows none, or does not answer."""

    def ranks(self, job_id: str) -> dict[int, RankState]:
        """What the agents say of one job's ranks, by rank; `pid` and `host` among it."""

    def pages(self) -> list[ReceivedPage]:
        """Everything Alertmanager sent since the stage was built, oldest first."""

    def query(self, promql: str) -> list[dict[str, object]]:
        """The result vector of a PromQL query; empty while Prometheus does not answer."""

    def part(self, part: PartName, host: str | None = None) -> psutil.Process:
        """The process of a part; `host` where each host has its own. Raises ZmonError where it does not run."""

    def supervisor(self) -> psutil.Process:
        """The process that starts parts again when they die; stopping it keeps a part down."""

    def answers(self, part: PartName) -> bool:
        """Whether a part answers its health check now."""

    def close(self) -> None:
        """End everything; may be called twice."""
