"""The link to one agent: its latest report, and since when it is silent."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Generic, NamedTuple, TypeVar

from zmon.job import agent_reports
from zmon.schema.api import SnapshotRequest, Suspicion
from zmon.schema.api.agent import AgentReport
from zmon.schema.api.packed import Resting
from zmon.schema.host import HostSample, HostWindow, TcpSample
from zmon.schema.job_snapshot import AgentStatus
from zmon.schema.plan import Plan
from zmon.schema.rank import RankState
from zmon.schema.row import row_of
from zmon.schema.shard import Shard

FORGET_SECONDS = 3600.0  # after this much silence an agent's last report and its jobs are forgotten
WINDOW_SECONDS = 60.0  # the window over which hardware counters are compared
_SAMPLE_INTERVAL_SECONDS = 5.0
RESTART_SECONDS = 120.0  # an agent that announced a restart is expected back by then: its node may pull an image
TCP_WINDOW_SECONDS = 4.0  # the window over which TCP connections are compared: a few steps, four readings of the agent
_TCP_SAMPLE_INTERVAL_SECONDS = 0.9
_NO_ANSWER = "it has not answered yet"

T = TypeVar("T")


class _SampleWindow(Generic[T]):
    """Samples of the last seconds, to compare the newest one with the oldest."""

    def __init__(self, seconds: float, interval_seconds: float) -> None:
        self._seconds, self._interval_seconds = seconds, interval_seconds
        self.samples: deque[tuple[float, T]] = deque()  # monotonic seconds and sample, the oldest first

    def add(self, now: float, sample: T) -> None:
        """Add a sample if the interval since the last one is over, and drop those that are too old."""
        if not self.samples or now - self.samples[-1][0] >= self._interval_seconds:
            self.samples.append((now, sample))
        while len(self.samples) > 1 and now - self.samples[1][0] >= self._seconds:
            self.samples.popleft()


class AgentLink:
    """The link to one agent: its latest report, its suspects, and samples of its hardware."""

    def __init__(self, url: str, shard: Shard | None = None) -> None:
        self.url, self._shard = url, shard
        self.report: AgentReport | None = None
        self.cursor: int | None = None  # the steps after it are requested next; None: no steps, as no answer has come
        self.suspects: tuple[Suspicion, ...] = ()
        self.error: str | None = _NO_ANSWER  # why the last request failed; None: it was answered
        self.host_is_up = False  # the agent does not answer, but its host refused the last request
        self._restarts_until = -math.inf  # monotonic time until which an announced restart explains a silence
        self.is_target = True  # False once discovery no longer names it
        self._answered_at = self._steps_received_at = time.monotonic()
        self._delay = agent_reports.ReportDelay()
        self._host_window = _SampleWindow[HostSample](WINDOW_SECONDS, _SAMPLE_INTERVAL_SECONDS)
        self._tcp_window = _SampleWindow[TcpSample | None](TCP_WINDOW_SECONDS, _TCP_SAMPLE_INTERVAL_SECONDS)
        self._were_up: frozenset[str] = frozenset()  # devices that have worked at some time
        self.resting = Resting()  # the part of packed reports that seldom changes, as the agent sent it last
        self.packed_from = -math.inf  # monotonic time; before it the hub requests JSON, afterwards packed reports
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
        return agent_reports.as_of_now(self.report, time.monotonic() - self._answered_at + self._delay.seconds)

    def silent_report(self) -> AgentReport | None:
        """Return the last report of an agent that does not answer; None if it answers, or has never answered."""
        if self.report is None or self.reachable:
            return None
        return agent_reports.as_of_silence(self.report, self.silent_seconds)

    def snapshot_request(self, step_interval_seconds: float, num_records: int) -> SnapshotRequest:
        """Return the next request for the agent's report, with about this number of step records for each rank.

        Steps are requested at this interval. More frequent requests would return the same time span, split into more
        records.
        """
        is_due = time.monotonic() - self._steps_received_at >= step_interval_seconds
        return SnapshotRequest(
            since=self.cursor if is_due and self.cursor is not None else -1,
            about=num_records,
            plans=self.plans_version,
            known=self.resting.version,
            shard=str(self._shard or ""),
        )

    def record_failure(self, error: str, host_is_up: bool = False) -> None:
        """Record that the agent did not answer. After an hour of silence, its last report is forgotten with its jobs.

        `host_is_up`: the agent's host answered, and refused the connection.
        """
        self.error = error
        self.host_is_up = host_is_up
        self.suspects = ()
        self.consecutive_failures += 1
        if self.silent_seconds > FORGET_SECONDS:
            self.report = None

    def record_suspects(self, suspects: tuple[Suspicion, ...], leaving: bool) -> None:
        """Record the answer to a long poll: the ranks that the agent suspects, and whether the agent is restarting.

        An answer without `leaving` shows that the last restart is complete: a later silence has another reason.
        """
        self.suspects = suspects if self._shard is None else agent_reports.suspects_of_shard(suspects, self._shard)
        self._restarts_until = time.monotonic() + RESTART_SECONDS if leaving else -math.inf

    def withdraw(self) -> None:
        """Record that discovery no longer names the agent: its ranks are unwatched, and its host is not lost."""
        self.is_target = False
        self.error = "it is no longer a target"
        self.host_is_up = True
        self.suspects = ()

    def restore(self) -> None:
        """Record that discovery names the agent again."""
        self.is_target = True
        self.error = _NO_ANSWER
        self.host_is_up = False

    @property
    def may_be_forgotten(self) -> bool:
        """Return True if discovery no longer names the agent, and none of its ranks may be alive."""
        if self.is_target:
            return False
        has_living_ranks = self.report is not None and any(rank.alive for rank in self.report.ranks)
        return not has_living_ranks or self.silent_seconds > FORGET_SECONDS

    def record_report(self, report: AgentReport, with_steps: bool = True) -> None:
        """Record an answer. `with_steps`: the request asked for the steps since the cursor."""
        if self._shard is not None:
            report = agent_reports.of_shard(report, self._shard)
        report = self._with_plans(report)
        now = time.monotonic()
        seconds_since_answer = now - self._answered_at
        is_other_host = self.report is not None and self.report.host != report.host
        if self.report is not None and not is_other_host:
            report = agent_reports.with_earlier_ends(report, self.report, seconds_since_answer)
        self._answered_at = now
        self.report, self.error, self.host_is_up, self.consecutive_failures = report, None, False, 0
        if with_steps or self.cursor is None:
            self.cursor, self._steps_received_at = report.cursor, now
        if is_other_host:
            self._delay.restart()
        if report.monotonic is not None:
            self._delay.add(now, report.monotonic)
        self._add_sample(report.sample, restart=is_other_host or seconds_since_answer > WINDOW_SECONDS)

    def _with_plans(self, report: AgentReport) -> AgentReport:
        """Return the report with the newest plans, which the agent sends only if they have changed."""
        if report.plans_version != self.plans_version:
            self._plans, self.plans_version = report.plans, report.plans_version
        if self._plans is report.plans or not (self._plans or report.plans):
            return report
        return replace(report, plans=self._plans)

    def _add_sample(self, sample: HostSample, restart: bool) -> None:
        """Store a sample of the hardware to compare later ones with.

        `restart`: forget the earlier samples, since this may be another host, or the host may have rebooted.
        """
        if restart:
            self._host_window.samples.clear()
            self._tcp_window.samples.clear()
            self._were_up = frozenset()
        self._were_up |= working_devices(sample)
        self._host_window.add(self._answered_at, sample)
        self._tcp_window.add(self._answered_at, sample.tcp)

    def window(self) -> HostWindow | None:
        """Return the host's hardware now and a minute ago, or None while the agent does not answer.

        If there is no sample from a minute ago, the earlier sample is the oldest that exists.
        """
        if self.report is None or not self.reachable:
            return None
        taken_at, before = self._host_window.samples[0]
        # The first sample of each cgroup: a cgroup may appear after the window began, with its first rank.
        newest_first = [sample for _, sample in reversed(self._host_window.samples)]
        first_samples = {group.path: group for sample in newest_first for group in sample.cgroups or ()}
        before = replace(before, cgroups=tuple(first_samples.values()) or before.cgroups)
        earlier_tcp = self._tcp_window.samples[0][1]
        seconds = self._answered_at - taken_at
        return HostWindow(self.report.host, seconds, before, self.report.sample, self._were_up, earlier_tcp)

    def status(self) -> AgentStatus:
        """Return the status of the agent as detectors and `/healthz` use it."""
        link_fields: dict[str, Any] = {
            "url": self.url,
            "reachable": self.reachable,
            "silent_seconds": self.silent_seconds,
            "error": self.error,
            "host_is_up": self.host_is_up,
            "is_restarting": not self.reachable and time.monotonic() < self._restarts_until,
        }
        return row_of(AgentStatus, self.report, **link_fields) if self.report else AgentStatus(host=None, **link_fields)


class RankLink(NamedTuple):
    """The link whose agent reports a rank."""

    link: AgentLink
    job_id: str  # at this agent; the hub may show the job under another id


def links_of(links: Iterable[AgentLink], ranks: Iterable[RankState]) -> dict[str, RankLink]:
    """Return the link of each of these ranks, by run uid. A rank whose agent was withdrawn is left out.

    A host's name does not identify its agent, because two agents may report the same name.
    """
    wanted = {state.run_uid for state in ranks}
    result: dict[str, RankLink] = {}
    for link in sorted(links, key=lambda link: link.reachable):  # agents that answer come last, and so replace others
        for state in link.report.ranks if link.report else ():
            if state.run_uid in wanted:
                result[state.run_uid] = RankLink(link, state.job_id)
    return result


def working_devices(sample: HostSample) -> frozenset[str]:
    """Return the links that are up, by device, and the GPUs that are not lost, by UUID."""
    up = (nic.device for nic in (*(sample.nics or ()), *(sample.rdma or ())) if nic.up)
    gpus = (gpu.uuid for gpu in sample.gpus or () if not gpu.lost)
    return frozenset((*up, *gpus))
