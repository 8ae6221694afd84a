"""The link to one agent: its latest report, and since when it is silent."""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from dataclasses import replace

from zmon.job.earlier_ends import with_earlier_ends
from zmon.job.report_delay import ReportDelay
from zmon.job.sharding import of_shard, suspects_of_shard
from zmon.job.timeline import as_of_now
from zmon.schema.api import SnapshotRequest, Suspicion
from zmon.schema.api.agent import AgentReport
from zmon.schema.api.packed import Resting
from zmon.schema.api.received import Undecodable
from zmon.schema.host import HostSample, HostWindow, TcpSample
from zmon.schema.job_snapshot import AgentStatus
from zmon.schema.plan import Plan
from zmon.schema.shard import Shard
from zmon.web import client

log = logging.getLogger("zmon.hub")

FORGET_SECONDS = 3600.0  # after this much silence an agent's last report and its jobs are forgotten
WINDOW_SECONDS = 60.0  # the window over which hardware counters are compared
_BETWEEN_SAMPLES_SECONDS = 5.0
_JSON_SECONDS = 60.0  # an agent whose packed report cannot be decoded is asked for JSON for this time
RESTART_SECONDS = 120.0  # an agent that said that it ends is expected back within this time: a node pulls an image
TCP_WINDOW_SECONDS = 4.0  # the window over which TCP connections are compared: a few steps, four readings of the agent
_BETWEEN_TCP_SAMPLES_SECONDS = 0.9


class AgentLink:
    """The link to one agent: its latest report, its suspects, and samples of its hardware."""

    def __init__(self, url: str, shard: Shard | None = None) -> None:
        self.url, self._shard = url, shard
        self.report: AgentReport | None = None
        self.cursor: int | None = None  # None until the first answer: earlier steps are not requested
        self.suspects: tuple[Suspicion, ...] = ()
        self.error: str | None = "it has not answered yet"
        self.host_is_up = False  # the host refused the last request, because no agent listens there
        self._restarts_until = -math.inf  # monotonic seconds
        self.is_target = True  # False once discovery no longer names it
        self._answered_at = self._steps_received_at = time.monotonic()
        self._delay = ReportDelay()
        self._samples: deque[tuple[float, HostSample]] = deque()
        self._tcp_samples: deque[tuple[float, TcpSample | None]] = deque()
        self._were_up: frozenset[str] = frozenset()
        self.resting = Resting()  # what the agent sent last about its ranks that seldom changes
        self._packed_at = -math.inf  # monotonic time from which on packed reports are requested
        self.collector = ""  # URL of the collector that asks the agent; empty: the hub asks it itself
        self.silent_collector = ""  # the same URL while that collector does not answer
        self.plans_version = ""  # version of the plans that the agent sent last
        self._plans: dict[str, Plan] = {}
        self.consecutive_failures = 0

    @property
    def reachable(self) -> bool:
        """Return True if the agent answered the last request."""
        return self.error is None

    @property
    def silent_seconds(self) -> float:
        """Seconds since the agent last answered; 0 while it answers."""
        return 0.0 if self.reachable else time.monotonic() - self._answered_at

    def present_report(self) -> AgentReport | None:
        """Return the last report of an agent that answers, with the ages of ended ranks as of now; else None."""
        if self.report is None or not self.reachable:
            return None
        return as_of_now(self.report, time.monotonic() - self._answered_at + self._delay.seconds)

    def due_cursor(self, every_seconds: float) -> int | None:
        """Return the cursor to ask for new steps with, or None if it is too early to ask again.

        More frequent requests would return the same time span, split into more records.
        """
        due = time.monotonic() - self._steps_received_at >= every_seconds
        return self.cursor if due else None

    def read(self, raw: client.RawReport) -> AgentReport:
        """Return a report that the agent sent. If it is packed and wrong, JSON is requested for a while.

        Raises Undecodable or Unreachable.
        """
        try:
            report, self.resting = client.read_report(self.url, raw, self.resting)
        except Undecodable as error:
            log.warning("%s: its packed report cannot be decoded, JSON is requested: %s", self.url, error)
            self._packed_at, self.resting = time.monotonic() + _JSON_SECONDS, Resting()
            raise
        return report

    @property
    def wants_packed(self) -> bool:
        """True unless the agent's packed reports could not be decoded lately."""
        return time.monotonic() >= self._packed_at

    def snapshot_request(self, every_seconds: float, about: int) -> SnapshotRequest:
        """Return the next request for its report, with the steps since the last one if that is long enough ago.

        `about`: about this many records of each rank.
        """
        since = self.due_cursor(every_seconds)
        return SnapshotRequest(
            since=-1 if since is None else since,
            about=about,
            plans=self.plans_version,
            known=self.resting.version,
            shard=str(self._shard or ""),
        )

    def record_failure(self, error: str, host_is_up: bool = False, silent_collector: str = "") -> None:
        """Record that the agent did not answer. Its last report, and its jobs with it, are forgotten after an hour.

        `host_is_up`: its host did answer, and refused the connection. `silent_collector`: the URL of its collector, if
        that does not answer and so nothing is known about the agent.
        """
        self.error, self.suspects, self.host_is_up = error, (), host_is_up
        self.silent_collector = silent_collector
        self.consecutive_failures += 1
        if self.silent_seconds > FORGET_SECONDS:
            self.report = None

    def record_leave(self) -> None:
        """Record that the agent said that it ends now: it starts again."""
        self._restarts_until = time.monotonic() + RESTART_SECONDS

    def record_suspects(self, suspects: tuple[Suspicion, ...], leaving: bool) -> None:
        """Record the answer to a long poll: the ranks that the agent suspects, and whether it ends now."""
        self.suspects = suspects if self._shard is None else suspects_of_shard(suspects, self._shard)
        if leaving:
            self.record_leave()
        else:
            self.record_stay()

    @property
    def is_leaving(self) -> bool:
        """True if the agent said that it ends now, or said so lately and is expected back."""
        return time.monotonic() < self._restarts_until

    def record_answer(self) -> None:
        """Record that the agent has answered now."""
        self._answered_at = time.monotonic()
        self.error, self.host_is_up, self.silent_collector, self.consecutive_failures = None, False, "", 0

    def record_stay(self) -> None:
        """Record that the agent does not end now: its restart is over, and a later silence is one of its own."""
        self._restarts_until = -math.inf

    def withdraw(self) -> None:
        """Record that discovery no longer names the agent: its ranks are unwatched, and its host is not lost."""
        self.is_target, self.error, self.suspects = False, "it is no longer a target", ()
        self.host_is_up, self.collector, self.silent_collector = True, "", ""

    def name_again(self) -> None:
        """Record that discovery names the agent again."""
        self.is_target, self.error, self.host_is_up = True, "it has not answered yet", False

    @property
    def is_forgotten(self) -> bool:
        """True if discovery no longer names the agent, and none of its ranks may be alive."""
        if self.is_target:
            return False
        lives = self.report is not None and any(rank.alive for rank in self.report.ranks)
        return not lives or self.silent_seconds > FORGET_SECONDS

    def record_report(self, report: AgentReport, with_steps: bool = True) -> None:
        """Record an answer. `with_steps`: the request asked for the steps since the cursor."""
        if self._shard is not None:
            report = of_shard(report, self._shard)
        other_host = self.report is not None and self.report.host != report.host
        if report.plans_version != self.plans_version:
            self._plans, self.plans_version = report.plans, report.plans_version
        previous = self._answered_at
        self.record_answer()
        if self.report is not None and not other_host:
            report = with_earlier_ends(report, self.report, self._answered_at - previous)
        if self._plans is not report.plans and (self._plans or report.plans):
            report = replace(report, plans=self._plans)
        self.report = report
        if with_steps or self.cursor is None:
            self.cursor, self._steps_received_at = report.cursor, self._answered_at
        if other_host:
            self._delay.restart()
        if report.monotonic is not None:
            self._delay.add(self._answered_at, report.monotonic)
        self._add_sample(report.sample, restart=other_host or self._answered_at - previous > WINDOW_SECONDS)

    def _add_sample(self, sample: HostSample, restart: bool) -> None:
        """Store a sample of the hardware to compare later ones with.

        `restart`: forget the earlier samples, since this may be another host, or the host may have rebooted.
        """
        if restart:
            self._samples.clear()
            self._tcp_samples.clear()
            self._were_up = frozenset()
        self._were_up |= working(sample)
        if not self._samples or self._answered_at - self._samples[-1][0] >= _BETWEEN_SAMPLES_SECONDS:
            self._samples.append((self._answered_at, sample))
        while len(self._samples) > 1 and self._answered_at - self._samples[1][0] >= WINDOW_SECONDS:
            self._samples.popleft()
        if not self._tcp_samples or self._answered_at - self._tcp_samples[-1][0] >= _BETWEEN_TCP_SAMPLES_SECONDS:
            self._tcp_samples.append((self._answered_at, sample.tcp))
        while len(self._tcp_samples) > 1 and self._answered_at - self._tcp_samples[1][0] >= TCP_WINDOW_SECONDS:
            self._tcp_samples.popleft()

    def window(self) -> HostWindow | None:
        """Return the host's hardware now and a minute ago, or None while the agent does not answer.

        If there is no sample from a minute ago, the earlier sample is the oldest that exists.
        """
        if self.report is None or not self.reachable:
            return None
        taken_at, before = self._samples[0]
        # A cgroup may appear after the window began, with its first rank. Then its counters are compared with its first
        # sample.
        groups = {group.path: group for _, sample in reversed(self._samples) for group in sample.cgroups or ()}
        before = replace(before, cgroups=tuple(groups.values()) or before.cgroups)
        earlier_tcp = self._tcp_samples[0][1]
        seconds = self._answered_at - taken_at
        return HostWindow(self.report.host, seconds, before, self.report.sample, self._were_up, earlier_tcp)

    def status(self) -> AgentStatus:
        """Return the status of the agent as detectors and `/healthz` use it."""
        return AgentStatus(
            url=self.url,
            host=self.report.host if self.report else None,
            reachable=self.reachable,
            silent_seconds=self.silent_seconds,
            error=self.error,
            sources=self.report.sources if self.report else (),
            version=self.report.version if self.report else None,
            leases=self.report.leases if self.report else None,
            num_left_out=self.report.num_left_out if self.report else 0,
            left_out=self.report.left_out if self.report else (),
            host_is_up=self.host_is_up,
            is_restarting=not self.reachable and self.is_leaving,
            silent_collector=self.silent_collector,
        )


def working(sample: HostSample) -> frozenset[str]:
    """Return the links that are up, by device, and the GPUs that are not lost, by UUID."""
    up = (nic.device for nic in (*(sample.nics or ()), *(sample.rdma or ())) if nic.up)
    gpus = (gpu.uuid for gpu in sample.gpus or () if not gpu.lost)
    return frozenset((*up, *gpus))
