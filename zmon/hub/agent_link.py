"""The hub's end of the line to one agent: what it said last, and since when it is silent."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import replace

from zmon.schema.agent import AgentReport, AgentStatus
from zmon.schema.api import Suspicion
from zmon.schema.host import HostSample, HostWindow, TcpSample
from zmon.schema.plan import Plan

FORGET_SECONDS = 3600.0
WINDOW_SECONDS = 60.0  # over which counters of the hardware are compared
_BETWEEN_SAMPLES_SECONDS = 5.0
RECENT_SECONDS = 4.0  # the same of connections: some steps, and four readings of the agent's
_BETWEEN_RECENT_SECONDS = 0.9


class AgentLink:
    """The hub's end of the line to one agent."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.report: AgentReport | None = None
        self.cursor: int | None = None  # what happened before this hub came is not counted again
        self.suspects: tuple[Suspicion, ...] = ()
        self.error: str | None = "it has not answered yet"
        self._heard = self._steps_told = time.monotonic()
        self._samples: deque[tuple[float, HostSample]] = deque()
        self._recent: deque[tuple[float, TcpSample | None]] = deque()
        self._worked: frozenset[str] = frozenset()
        self.plans_version = ""  # of those it told last
        self._plans: dict[str, Plan] = {}
        self.failures = 0  # in a row

    @property
    def reachable(self) -> bool:
        """Whether the last question was answered."""
        return self.error is None

    @property
    def silent_seconds(self) -> float:
        """How long it has not answered; 0 while it does."""
        return 0.0 if self.reachable else time.monotonic() - self._heard

    def steps_since(self, every_seconds: float) -> int | None:
        """The cursor to ask for steps with, once it is time for them again: asked more often they are the same seconds
        in more steps."""
        due = time.monotonic() - self._steps_told >= every_seconds
        return self.cursor if due else None

    def failed(self, error: str) -> None:
        """It did not answer; what it said last is forgotten after an hour, and with it its jobs."""
        self.error, self.suspects = error, ()
        self.failures += 1
        if self.silent_seconds > FORGET_SECONDS:
            self.report = None

    def heard(self, report: AgentReport, with_steps: bool = True) -> None:
        """It answered, and told the steps since the cursor or did not."""
        another = self.report is not None and self.report.host != report.host
        if report.plans_version != self.plans_version:
            self._plans, self.plans_version = report.plans, report.plans_version
        self.report, self.error, self.failures = replace(report, plans=self._plans), None, 0
        before, self._heard = self._heard, time.monotonic()
        if with_steps or self.cursor is None:
            self.cursor, self._steps_told = report.cursor, self._heard
        self._keep(report.sample, anew=another or self._heard - before > WINDOW_SECONDS)

    def _keep(self, sample: HostSample, anew: bool) -> None:
        """What the hardware shows, to compare with what it shows later. `anew`: it may be another, or booted again."""
        if anew:
            self._samples.clear()
            self._recent.clear()
            self._worked = frozenset()
        self._worked |= working(sample)
        if not self._samples or self._heard - self._samples[-1][0] >= _BETWEEN_SAMPLES_SECONDS:
            self._samples.append((self._heard, sample))
        while len(self._samples) > 1 and self._heard - self._samples[1][0] >= WINDOW_SECONDS:
            self._samples.popleft()
        if not self._recent or self._heard - self._recent[-1][0] >= _BETWEEN_RECENT_SECONDS:
            self._recent.append((self._heard, sample.tcp))
        while len(self._recent) > 1 and self._heard - self._recent[1][0] >= RECENT_SECONDS:
            self._recent.popleft()

    def window(self) -> HostWindow | None:
        """The host's hardware now and about a minute ago, or as long ago as it is known; None: it is not known now."""
        if self.report is None or not self.reachable:
            return None
        at, before = self._samples[0]
        # A group is there with its first rank, which may be later: counted is from then on.
        groups = {group.path: group for _, sample in reversed(self._samples) for group in sample.cgroups or ()}
        before = replace(before, cgroups=tuple(groups.values()) or before.cgroups)
        recent = self._recent[0][1]
        return HostWindow(self.report.host, self._heard - at, before, self.report.sample, self._worked, recent)

    def status(self) -> AgentStatus:
        """For the detectors."""
        return AgentStatus(
            url=self.url,
            host=self.report.host if self.report else None,
            reachable=self.reachable,
            silent_seconds=self.silent_seconds,
            error=self.error,
            sources=self.report.sources if self.report else (),
            version=self.report.version if self.report else None,
            leases=self.report.leases if self.report else None,
        )


def working(sample: HostSample) -> frozenset[str]:
    """The links that are up and the GPUs that are there, by device and UUID."""
    up = (nic.device for nic in (*(sample.nics or ()), *(sample.rdma or ())) if nic.up)
    there = (gpu.uuid for gpu in sample.gpus or () if not gpu.lost)
    return frozenset((*up, *there))
