"""The passes of a real hub over a simulated job: its detectors, its suppression and its journal, in virtual time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lab.simulator.acts import SimulatedActs
from lab.simulator.composition import Strike
from lab.simulator.observation import JOB, UNIX, SimulatedAgent, flight
from lab.simulator.world import World
from zmon.hub import Hub, HubConfig
from zmon.hub.acts import Policy
from zmon.hub.standing_observation import StandingObservation
from zmon.job.timeline import snapshots
from zmon.schema.act import Intent
from zmon.schema.api.agent import AgentReport
from zmon.schema.finding import Finding
from zmon.schema.flight import FlightRecord
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.names import STALL
from zmon.schema.rank import RankState

INTERVAL_SECONDS = 1.0  # between two passes, as in HubConfig
ALERT_SECONDS = 0.25  # the same while a rank is suspected
STEPS_SECONDS = 0.9  # the hub asks for step records at most this often
CLOCK_SECONDS = 30.0  # clocks of hosts differ from the hub's by at most this much
JUMP_SECONDS = 60.0  # a clock that is set moves by at most this much
AHEAD_SECONDS = 1.5  # flight records are gathered this long before the leases end
# Later than this after a fault, the hub passes less often, to save time. In a job that stands still, the time between
# two passes is then SPARSE_RATIO of the time since the fault.
AFTER_FAULT_SECONDS = 12.0
SPARSE_RATIO = 0.05
UNEVEN_DETECTORS = ("straggler", "imbalance")


@dataclass(frozen=True)
class Published:
    """A finding as the hub published it at a time of the simulation."""

    time: float
    finding: Finding


@dataclass
class Watch:
    """A hub and its agents, which watch one simulated job."""

    world: World
    folder: Path
    policy: Policy | None = None  # of acts
    published: list[Published] = field(default_factory=list)
    _steps_at: float = -1.0  # the hub last asked for step records at this time
    _struck_at: float = 0.0  # the time of the last fault before the latest pass

    def __post_init__(self) -> None:
        draw = self.world.draw
        self.agents = [
            SimulatedAgent(self.world, host, draw.uniform(-CLOCK_SECONDS, CLOCK_SECONDS), draw.uniform(0.0, 0.1))
            for host in range(self.world.shape.hosts)
        ]
        self._hub = Hub(HubConfig((), self.folder))
        self._acts = SimulatedActs(self.policy, self.folder) if self.policy else None
        self._down_until = 0.0
        self.world.on_outside = self._strike

    def _strike(self, strike: Strike) -> None:
        """Restart the agent of the struck rank's host, or the hub, or set the clock of the host."""
        seconds = strike.seconds or 0.0
        agent = self.agent_of(strike.rank)
        if strike.what == "agent_restart":
            agent.restart(seconds)
        elif strike.what == "clock_jump":
            agent.offset += self.world.draw.uniform(-JUMP_SECONDS, JUMP_SECONDS)
        else:
            self._down_until = self.world.time + seconds
            self._hub = Hub(HubConfig((), self.folder))

    def agent_of(self, rank: int) -> SimulatedAgent:
        """Return the agent of the rank's host."""
        return self.agents[self.world.ranks[rank].host]

    def run(self, until: float) -> None:
        """Let the job run, and the hub pass, until that time."""
        while self.world.time < until:
            is_suspect = self._pass() if self.world.time >= self._down_until else False
            interval = self._interval(is_suspect)
            if self.world.struck:
                self._struck_at = max(self._struck_at, self.world.struck[-1].time)
            self.world.run(min(until, self.world.time + interval))

    def _interval(self, is_suspect: bool) -> float:
        """Return the time to the next pass over a job that is suspect or not."""
        interval = ALERT_SECONDS if is_suspect else INTERVAL_SECONDS
        since = self.world.time - self._struck_at
        if since <= AFTER_FAULT_SECONDS:
            return interval
        return max(interval, SPARSE_RATIO * since) if self.world.is_still else INTERVAL_SECONDS

    def _pass(self) -> bool:
        """Make one pass; return True if the job is suspect."""
        time = self.world.time
        with_steps = time - self._steps_at >= STEPS_SECONDS
        if with_steps:
            self._steps_at = time
        reports = [(agent, report) for agent in self.agents if (report := agent.ask(with_steps)) is not None]
        answers = [report for agent, report in reports if agent.reachable]
        silent = [report for agent, report in reports if not agent.reachable]
        if not answers:
            return False
        windows = [window for agent in self.agents if (window := agent.window())]
        statuses = [agent.status() for agent in self.agents]
        jobs = [*snapshots(answers, silent, statuses, UNIX + time, windows)]
        is_suspect = False
        for snapshot in jobs:
            is_suspect |= self._judge(snapshot, answers)
        self._record()
        if self._acts:
            self._acts.update(self._hub.journal.active(), jobs, UNIX + time)
        return is_suspect

    def _judge(self, snapshot: Snapshot, reports: Sequence[AgentReport]) -> bool:
        """Let the hub judge one job, with flight records once all its leases nearly end; return True if it is suspect.

        A job is suspect if a stall is open, or if a rank is dead, stopped or overdue.
        """
        open_stalls = self._hub.journal.active_of(JOB, STALL)
        alive = [rank for rank in snapshot.ranks if rank.alive and rank.activity != "done"]
        state = self._hub.job_states.state_of(snapshot)
        needs_flights = open_stalls or (alive and all(map(_is_nearly_overdue, alive)))
        state.note_waiters(snapshot.ranks)
        state.flights = self._flights(snapshot) if needs_flights else {}
        self._hub.judge.judge_job(snapshot, [*reports], UNIX + self.world.time)
        ranks = snapshot.ranks
        return bool(open_stalls) or any(not r.alive or r.overdue_seconds > 0 or r.stopped_seconds for r in ranks)

    def _flights(self, snapshot: Snapshot) -> dict[int, StandingObservation[FlightRecord]]:
        """Return the flight records of the living ranks; a stopped process does not answer."""
        backend = "gloo" if self.world.shape.device == "cpu" else "nccl"
        answering = [rank for rank in snapshot.ranks if rank.alive and rank.stopped_seconds is None]
        launches = self.world.launches
        return {
            rank.rank: StandingObservation.of(rank, flight(launches[rank.attempt][rank.rank], backend))
            for rank in answering
        }

    def _record(self) -> None:
        """Record each finding that opened or changed."""
        latest = {state.finding.id: state.finding for state in self.published}
        for finding in self._hub.journal.all():
            before = latest.get(finding.id)
            if before is None or _labels(before) != _labels(finding):
                self.published.append(Published(self.world.time, finding))

    @property
    def acts(self) -> Sequence[Intent]:
        """The acts that zmon would have done."""
        return self._acts.acts if self._acts else ()

    @property
    def names_slow_steps(self) -> bool:
        """True if a finding above `info` about uneven steps was published."""
        findings = [state.finding for state in self.published if state.finding.detector in UNEVEN_DETECTORS]
        return any(finding.severity != "info" for finding in findings)

    @property
    def errors(self) -> dict[tuple[str, str], str]:
        """The errors of the hub's parts."""
        return self._hub.errors.texts


def _labels(finding: Finding) -> tuple[object, ...]:
    """Return the parts of a finding whose change is published again."""
    return finding.cause, finding.severity, finding.ranks, finding.hosts, finding.resolved is None


def _is_nearly_overdue(state: RankState) -> bool:
    """Return True if the lease of a rank ends so soon that flight records must be gathered now."""
    lease = state.lease_seconds
    elapsed = state.step_seconds if state.activity == "train" else state.activity_seconds
    return lease is not None and elapsed > max(lease / 2, lease - AHEAD_SECONDS)
