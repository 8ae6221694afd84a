"""The view of an agent: it looks at its ranks ten times a second, and its report reaches the hub up to a second late.

Each host has its own clock, and ages are measured on the host. Pure.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, floor

from lab.simulator.hardware import host_window
from lab.simulator.launchers import LAUNCHER_PID
from lab.simulator.rank import SimulatedRank, Span
from lab.simulator.world import World
from zmon.job.agent_reports import ReportDelay, as_of_now, as_of_silence, with_earlier_ends
from zmon.job.lease import Leases
from zmon.schema.api.agent import AgentReport
from zmon.schema.flight import FlightRecord, PendingCollective
from zmon.schema.host import HostSample, HostWindow
from zmon.schema.job_snapshot import AgentStatus
from zmon.schema.measures import is_aligned
from zmon.schema.rank import InFlight, LastWords, RankState
from zmon.schema.steps import MEAN, MEAN_STEPS, RankSteps, Steps

JOB = "job"
UNIX = 1_800_000_000.0  # the hub's unix time at the begin of the simulation
LOOK_SECONDS = 0.1
BOX_SECONDS = 0.5  # from the start of a process to its black box
LATE_SECONDS = 1.0  # the longest delay of a report
LATE_SHARE = 0.2  # share of the reports that are late
ABOUT_STEPS = 8  # of a rank in a report, see HubConfig.about_steps
DEAD_SECONDS = 900.0  # the black box of a dead rank is reported for this time
LEFT_BEHIND_SECONDS = 60.0  # a new agent never reports a rank that had been dead for longer when it began
RECENT_STEPS, RECENT_STAYS = 512, 8  # that a lease is learned from, as in zmon/agent/sources/learned_lease.py
_LEASES = Leases()


@dataclass
class SimulatedAgent:
    """The agent of one host."""

    world: World
    host: int
    offset: float  # its clock minus the hub's, in seconds
    phase: float  # it looks at this time, and every 0.1 s from then on
    began: float = 0.0
    down_until: float = 0.0
    _gaps: list[Span] = field(default_factory=list)  # from the end of an agent to the begin of the next one
    _looked_at: float = -1.0  # the time of the look that the latest report shows
    _steps_until: float = 0.0  # the hub has its steps up to this time
    _answered_at: float = 0.0  # the time of its latest answer to the hub
    _report: AgentReport | None = None
    _delay: ReportDelay = field(default_factory=ReportDelay)

    @property
    def name(self) -> str:
        """The name of the host."""
        return f"node-{self.host}"

    def restart(self, seconds: float) -> None:
        """End the agent now; a new one answers after so many seconds."""
        self.down_until = self.began = self.world.time + seconds
        self._gaps.append(Span(self.world.time, self.began))

    def shows(self, time: float) -> bool:
        """Return True if the agent ran at that time, and long enough afterwards that the hub had its report."""
        return not any(gap.begin - LATE_SECONDS <= time < gap.end for gap in self._gaps)

    @property
    def reachable(self) -> bool:
        """True if the agent answers the hub now."""
        return self.world.time >= self.down_until and self.host not in self.world.network.lost

    def ask(self, with_steps: bool) -> AgentReport | None:
        """Return the present report, or the last one if the agent does not answer."""
        world = self.world
        earlier, answered_at = self._report, self._answered_at
        if not self.reachable:
            return None if earlier is None else as_of_silence(replace(earlier, steps={}), world.time - answered_at)
        late = world.draw.uniform(0.0, LATE_SECONDS) if world.draw.random() < LATE_SHARE else 0.0
        look = self.phase + LOOK_SECONDS * floor((world.time - late - self.phase) / LOOK_SECONDS)
        self._looked_at = max(self._looked_at, look, self.began)
        self._answered_at = world.time
        ranks = [rank for launch in world.launches for rank in launch if self._reports(rank)]
        states = tuple(self._state(rank) for rank in ranks)
        steps: dict[str, tuple[Steps, ...]] = {}
        if with_steps:
            since, self._steps_until = self._steps_until, self._looked_at
            steps[JOB] = tuple(sampled_steps(rank, since, self._looked_at) for rank in ranks)
        time = UNIX + self.offset + self._looked_at
        self._report = AgentReport(self.name, time, "simulated", states, HostSample(), (), steps)
        if earlier is not None:
            self._report = with_earlier_ends(self._report, earlier, world.time - answered_at)
        self._delay.add(world.time, self._looked_at)  # on a clock that nobody sets
        return as_of_now(self._report, self._delay.seconds)

    def status(self) -> AgentStatus:
        """Return the hub's view of this agent."""
        silent = 0.0 if self.reachable else self.world.time - self._answered_at
        error = None if self.reachable else "no answer"
        host = None if self._report is None else self.name
        host_is_up = not self.reachable and self.host not in self.world.network.lost
        return AgentStatus(f"http://{self.name}:9780", host, self.reachable, silent, error, host_is_up=host_is_up)

    def window(self) -> HostWindow | None:
        """Return the hardware of the host as of the last look, or None while the agent does not answer."""
        if not self.reachable or self._looked_at < 0:
            return None
        return host_window(self.world, self.host, self.name, JOB, self._looked_at)

    def _reports(self, rank: SimulatedRank) -> bool:
        """Return True if the report has this rank: one of the host, with a black box that is not too old."""
        if rank.host != self.host or rank.start + BOX_SECONDS > self._looked_at:
            return False
        if rank.ended is None:
            return True
        is_left_behind = self.began - rank.ended > LEFT_BEHIND_SECONDS  # decided once, when its box is opened
        return not is_left_behind and self._looked_at - rank.ended < DEAD_SECONDS

    def _first_look(self, time: float) -> float:
        """Return the first look at or after that time."""
        if time < self.began:
            return self.began
        return self.phase + LOOK_SECONDS * ceil((time - self.phase) / LOOK_SECONDS)

    def _watches(self, rank: SimulatedRank) -> bool:
        """Return True if the agent saw the rank alive: only then can it tell how the rank and its launcher ended."""
        return rank.ended is None or rank.ended >= self.began

    def _seen_dead(self, rank: SimulatedRank) -> float:
        """Return the time of the first look that saw a rank dead, or its last sign of life before the agent began."""
        ended = rank.ended or 0.0
        return max(rank.at(ended).time, words_at(rank)) if ended < self.began else self._first_look(ended)

    def _age(self, since: float | None) -> float | None:
        """Return the time since the first look that saw a state, or None if no look has."""
        if since is None or (look := self._first_look(since)) > self._looked_at:
            return None
        return self._looked_at - look

    def _state(self, rank: SimulatedRank) -> RankState:
        """Return the state of a rank as the look of this report shows it; unix times are of the host's clock."""
        shape = self.world.shape
        look = self._looked_at
        time = look if rank.ended is None else min(look, rank.ended)
        now = rank.at(time)
        alive = rank.is_alive(look)
        number = bisect_right(rank.step_ends, look)
        stopped = self._age(rank.stopped_since(look))
        blocked = self._age(rank.blocked_since(look))
        is_watched = self._watches(rank)
        words = self._words(rank)
        launcher_end = self.world.launchers.ends.get((rank.attempt, rank.host)) if is_watched else None
        if launcher_end is not None and launcher_end.time > look:
            launcher_end = None
        knows_status = shape.statuses_known and is_watched
        lease, overdue = self._lease(rank, number)
        between_seconds: dict[str, float] = {}
        for stay in rank.stays:
            if stay.end <= look and stay.activity != "train":
                between_seconds[stay.activity] = between_seconds.get(stay.activity, 0.0) + stay.seconds
        clock = UNIX + self.offset
        restarts = {"torchrun": shape.max_restarts}.get(shape.launcher)
        return RankState(
            job_id=JOB, attempt=rank.attempt, run_uid=uid(rank), start=clock + rank.start, rank=rank.rank,
            local_rank=rank.rank - rank.host * shape.ranks // shape.hosts, world_size=shape.ranks, host=self.name,
            pid=1000 + 100 * rank.attempt + rank.rank, device="cpu" if shape.device == "cpu" else f"GPU-{rank.rank}",
            backend="gloo" if shape.device == "cpu" else "nccl", launcher=self._launcher(rank),
            restart_count=rank.attempt, max_restarts=restarts, labels={}, alive=alive,
            process_state=None if not alive else "T" if stopped is not None else "D" if blocked is not None else "S",
            exit_status=rank.ending.status if rank.ending and not alive and knows_status else None,
            gone_seconds=None if alive else max(0.0, look - self._seen_dead(rank)),
            stopped_seconds=stopped if alive else None, activity=now.activity,
            activity_seconds=look - now.activity_since, phase=now.phase, step=now.step,
            step_seconds=look - now.step_since, state_seconds=look - now.time,
            in_flight=None if now.inside is None else InFlight(
                now.inside.op, now.inside.group, now.inside.sequence, now.inside.num_bytes, look - now.time
            ),
            sequences=rank.sequences(time), lease_seconds=lease,
            overdue_seconds=overdue if alive else 0.0, steps=number,
            step_seconds_total=sum(record.duration for record in rank.steps[max(0, number - 1) : number]) * number,
            totals=None, report={}, last_words=words,
            last_step_time=clock + rank.step_ends[number - 1] if number else None,
            last_checkpoint_time=next((clock + end for end in reversed(rank.checkpoints) if end <= look), None),
            overhead_seconds=0.0, dropped_records=0, resident_bytes=None, entered=rank.last_entered(time),
            blocked_seconds=blocked if alive else None, between_seconds=between_seconds,
            open_seconds=look - now.step_since,
            last_words_seconds=look - words_at(rank) if words else None,
            launcher_gone_seconds=self._age(launcher_end.time) if launcher_end else None,
            launcher_status=launcher_end.status
            if launcher_end and knows_status and launcher_end.time >= self.began
            else None,
            relaunched_seconds=self._age(self.world.launchers.relaunched.get(rank.attempt))
            if is_watched and not alive
            else None,
            watched=is_watched,
            leaving_seconds=look - words_at(rank) if alive and words and words.kind == "exception" else None,
        )  # fmt: skip

    def _launcher(self, rank: SimulatedRank) -> str:
        """Return the pid and start time of the rank's parent; without a launcher each rank has another one."""
        pid = LAUNCHER_PID + rank.rank if self.world.shape.launcher == "none" else LAUNCHER_PID
        return f"{pid}@1"

    def _words(self, rank: SimulatedRank) -> LastWords | None:
        """Return the last words that were in the black box at the look, in unix time of the host's clock."""
        ending = rank.ending
        if ending is None or ending.words is None or ending.words.time > self._looked_at:
            return None
        late = rank.late_signal
        late_pid = late.sender_pid if late and late.time <= self._looked_at else None
        return replace(ending.words, time=UNIX + self.offset + ending.words.time, late_sender_pid=late_pid)

    def _lease(self, rank: SimulatedRank, number: int) -> tuple[float | None, float]:
        """Return the lease of the rank after `number` steps, and by how much it is exceeded."""
        now = rank.at(self._looked_at)
        look = self._looked_at
        durations = [step.duration for step in rank.steps[max(1, number - RECENT_STEPS) : number]]
        stays = [stay.seconds for stay in rank.stays if stay.activity == now.activity and stay.end <= look]
        lease = _LEASES.seconds(now.activity, durations, stays[-RECENT_STAYS:])
        renewed = now.step_since if now.activity == "train" else now.activity_since
        return lease, 0.0 if lease is None else max(0.0, look - renewed - lease)


def uid(rank: SimulatedRank) -> str:
    """Return the run uid of a rank."""
    return f"uid-{rank.attempt}-{rank.rank}"


def words_at(rank: SimulatedRank) -> float:
    """Return the time of the last words; 0 if there are none."""
    return rank.ending.words.time if rank.ending and rank.ending.words else 0.0


def sampled_steps(rank: SimulatedRank, since: float, until: float) -> Steps:
    """Return about eight of the steps that ended in that time, with the mean of all steps since the previous one."""
    first = bisect_right(rank.step_ends, since)
    last = bisect_right(rank.step_ends, until)
    every = 1
    while (last - first) / every > ABOUT_STEPS:
        every *= 2
    sampled = RankSteps()
    for number in range(first, last):
        step = rank.steps[number]
        if step.step % every == 0:
            group = [other.numbers for other in rank.steps[max(0, number + 1 - every) : number + 1]]
            sampled.add(step.step, {**step.numbers, **_means(group)} if every > 1 else step.numbers)
    return sampled.steps(uid(rank))


def _means(group: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """Return the columns of the mean of these steps."""
    names = {name for numbers in group for name in numbers if is_aligned(name)}
    means = {MEAN + name: round(sum(numbers.get(name, 0) for numbers in group) / len(group)) for name in names}
    return {MEAN_STEPS: len(group), **means}


def flight(rank: SimulatedRank, backend: str) -> FlightRecord:
    """Return the flight record of a living rank: the collectives that it issued and that are not done."""
    pending: list[PendingCollective] = []
    last: dict[str, int] = {}
    for collective in rank.issued:
        group = f"{backend}:{collective.group}"
        entry = collective.entries[rank.rank]
        if collective.done_at is not None:
            last[group] = collective.sequence
            continue
        pending.append(
            PendingCollective(
                group=group, sequence=collective.sequence, op=entry.op, name=f"{backend}:{entry.op}",
                num_bytes=entry.num_bytes, sizes=((entry.num_bytes // 4,),), dtypes=("Float",), age_seconds=None,
                state="scheduled",
            )
        )  # fmt: skip
    return FlightRecord(tuple(pending), len(pending), last)
