"""The state that the hub keeps for one launch of a job: recent steps, account, baseline, flight records and plan."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from zmon import metrics
from zmon.hub import baseline_store, pauses
from zmon.hub.accounts import Accounts
from zmon.hub.baseline_recorder import BaselineRecorder
from zmon.hub.baseline_store import BaselineStore
from zmon.hub.pauses import PauseRecorder, PauseStore
from zmon.hub.standing_observation import StandingObservation, valid_values
from zmon.job.baseline import BaselineLearner
from zmon.job.efficiency import JobTime
from zmon.job.gpu_activity import RecentActivity
from zmon.job.history import History
from zmon.job.joins import steps_before_join
from zmon.job.progress import Pace
from zmon.job.reported_values import ReportedValues
from zmon.job.standing import WorkHistory
from zmon.job.time_account import Account
from zmon.job.utilization import JobPeaks, RecentWork, flops_source, job_peaks, utilization
from zmon.scaling.peaks import DevicePeaks
from zmon.schema.api.agent import AgentReport
from zmon.schema.curve import Efficiency, EfficiencySample
from zmon.schema.flight import FlightRecord
from zmon.schema.job import Utilization
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.plan import Plan
from zmon.schema.rank import RankState
from zmon.schema.unknown import Unknown
from zmon.stats import quantile

SAMPLE_SECONDS = 30.0  # interval of the efficiency samples: a few step windows, which give a job's speed
PEAKS_SECONDS = 5.0  # interval of looking up the peaks of all devices of a job, which seldom change
MAX_SAMPLES = 240  # efficiency samples of two hours, the longest time that a site may let the detector look back


@dataclass
class JobState:
    """The state that the hub keeps for one launch, which the run uids of its ranks identify."""

    uids: set[str]
    world_size: int
    account: Account
    history: History = field(init=False)
    reported_values: ReportedValues = field(default_factory=ReportedValues)
    baseline_learner: BaselineLearner = field(default_factory=BaselineLearner)
    time: JobTime = field(default_factory=JobTime)
    # Observations by rank, for the current stall.
    flights: dict[int, StandingObservation[FlightRecord]] = field(default_factory=dict)
    frames: dict[int, StandingObservation[str]] = field(default_factory=dict)
    work_histories: dict[int, StandingObservation[WorkHistory]] = field(default_factory=dict)
    # By run uid of a rank: its number of steps when its stack was outside the loops in which it takes steps.
    outside_loops: dict[str, int] = field(default_factory=dict)
    waiters: set[str] = field(default_factory=set)  # run uids of the ranks that waited when they ended
    known_since: float | None = None  # unix time of the first snapshot
    addresses: dict[str, tuple[str, ...]] = field(default_factory=dict)  # by host, as its agent reported them last
    plan: Plan | None = None  # the latest plan that a rank reported; None: there is none, or it predicts no step
    planned_steps: int | None = None  # of the latest plan, even if it predicts no step
    pace: Pace = field(default_factory=Pace)
    efficiency: deque[EfficiencySample] = field(default_factory=lambda: deque(maxlen=MAX_SAMPLES))
    efficiency_due: float = 0.0  # unix time of the next sample
    work: RecentWork = field(default_factory=RecentWork)  # the operations of the recent steps
    peaks: JobPeaks | Unknown = field(default_factory=lambda: Unknown("the job has not taken enough steps yet"))
    peaks_due: float = 0.0  # unix time at which the peaks are looked up again
    activity: RecentActivity = field(default_factory=RecentActivity)

    def __post_init__(self) -> None:
        self.history = History(self.world_size)

    def add(self, snapshot: Snapshot, reports: Collection[AgentReport], stalled: bool = False) -> Snapshot:
        """Move the new steps from the reports to this state; return the snapshot with its steps, baseline and plan.

        `stalled`: the job has an open finding of a stall.
        """
        first = snapshot.reported_ranks[0]
        rows = [part for report in reports for part in report.steps.pop(snapshot.job_id, ())]
        before = steps_before_join(snapshot.reported_ranks)
        steps = self.history.add(rows, {r.run_uid: r.rank for r in snapshot.ranks}, before)
        snapshot = replace(snapshot, steps=tuple(self.history.steps))
        self.known_since = snapshot.time if self.known_since is None else self.known_since
        self.time.add(steps, first.rank if snapshot.uncompared else None)
        self.pace.add(snapshot.time, first.steps, stalled)
        self.account.observe(steps, metrics.STEP_SECONDS_BOUNDS)
        self.account.update(snapshot, steps, quantile(self.time.recent_seconds, 0.5) or 0.0, stalled)
        self.baseline_learner.add(steps)
        self.work.add(steps)
        self._take_plans(reports)
        samples = [(window.host, window.now.tcp) for window in snapshot.hardware]
        self.addresses |= {host: tcp.addresses for host, tcp in samples if tcp and tcp.addresses}
        self.note_waiters(snapshot.ranks)
        work_histories = valid_values(self.work_histories, snapshot.ranks)
        return replace(
            snapshot,
            addresses=dict(self.addresses),
            step_windows=tuple(self.baseline_learner.step_windows),
            baseline=self.baseline_learner.baseline,
            not_finite=self.reported_values.not_finite(snapshot.ranks),
            flights=valid_values(self.flights, snapshot.ranks),
            frames=valid_values(self.frames, snapshot.ranks),
            standing={rank: history.standing for rank, history in work_histories.items()},
            outside_loops=frozenset(r.rank for r in snapshot.ranks if self.outside_loops.get(r.run_uid) == r.steps),
            waiters=frozenset(r.rank for r in snapshot.ranks if r.run_uid in self.waiters),
            known_seconds=snapshot.time - self.known_since,
            plan=self.plan,
        )

    def _take_plans(self, reports: Iterable[AgentReport]) -> None:
        """Take the last plan that a rank of this launch reported. It has tables for every rank, or none at all."""
        for plan in (report.plans[uid] for report in reports for uid in report.plans.keys() & self.uids):
            if len(plan.tables) in (0, self.world_size):
                self.plan = plan if plan.tables else None
                self.planned_steps = plan.steps

    def note_waiters(self, ranks: Sequence[RankState]) -> None:
        """Note the ended ranks that waited in a collective, because later flight records do not have these ranks."""
        flights = valid_values(self.flights, (r for r in ranks if not r.alive))
        self.waiters |= {r.run_uid for r in ranks if r.rank in flights and flights[r.rank].num_pending}

    def account_utilization(
        self, snapshot: Snapshot, measured: Mapping[str, DevicePeaks], stalled: bool = False
    ) -> None:
        """Add to the account how busy the GPUs are, and the operations of the finished steps, as far as both are known.

        `measured`: the peaks that the site has measured, by name of the device.
        """
        self.activity.add(snapshot, self.account, stalled)
        total = self.work.total
        if total is None:
            return
        if snapshot.time >= self.peaks_due:
            self.peaks_due = snapshot.time + PEAKS_SECONDS
            self.peaks = job_peaks(snapshot.reported_ranks, self.world_size, measured)
        if isinstance(self.peaks, JobPeaks):
            self.account.add_operations(total.flops / total.steps / self.peaks.flops)

    def utilization(self, ranks: Sequence[RankState]) -> Utilization | Unknown:
        """Return the work of the job relative to the peak of its devices, or why it is unknown."""
        source, total = flops_source(ranks), self.work.total
        if isinstance(source, Unknown):
            return source
        if total is None:
            return Unknown("the job has not taken enough steps yet")
        if isinstance(self.peaks, Unknown):
            return self.peaks
        uncounted = next((rank.uncounted for rank in ranks if rank.uncounted), "")
        return utilization(total, source, self.peaks, self.account.flops_ratio, uncounted)

    def move_times(self, seconds: float) -> None:
        """Move what is compared with later times, because the hub's clock was set by these seconds."""
        self.efficiency_due += seconds
        self.peaks_due += seconds
        self.efficiency = deque(
            (replace(sample, time=sample.time + seconds) for sample in self.efficiency), self.efficiency.maxlen
        )
        if self.known_since is not None:
            self.known_since += seconds
        self.pace.move_times(seconds)
        self.activity.move_times(seconds)
        self.account.move_times(seconds)


class JobStates:
    """The states of this hub's jobs, by job id; only the newest launch of each."""

    def __init__(self, data_dir: Path) -> None:
        self._states: dict[str, JobState] = {}
        self.accounts = Accounts(data_dir / "accounts")
        self.baselines = BaselineRecorder(BaselineStore(data_dir / baseline_store.FOLDER))
        self.pauses = PauseRecorder(PauseStore(data_dir / pauses.FOLDER))

    def state_of(self, snapshot: Snapshot) -> JobState:
        """Return the state of this launch.

        A snapshot without any rank of the known launch, or with another world size, belongs to a new launch.
        """
        uids = {r.run_uid for r in snapshot.reported_ranks}
        state = self._states.get(snapshot.job_id)
        if state is None or not state.uids & uids or state.world_size != snapshot.world_size:
            account = self.accounts.account_of(snapshot)
            state = self._states[snapshot.job_id] = JobState(uids, snapshot.world_size, account)
        elif state.account.is_other_job(snapshot):  # its ranks appeared one by one
            state.account = self.accounts.account_of(snapshot)
        state.uids |= uids
        return state

    def with_efficiency(self, snapshot: Snapshot, state_word: str) -> Snapshot:
        """Return the snapshot with the recent efficiency samples of its job.

        A sample is taken every 30 s, if a baseline was recorded at the job's size. `state_word`: the state of the job,
        as `zmon.hub.api.view.job_state` returns it.
        """
        state = self.state_of(snapshot)
        if snapshot.time >= state.efficiency_due:
            state.efficiency_due = snapshot.time + SAMPLE_SECONDS
            current = self.baselines.efficiency(snapshot, state_word)
            if isinstance(current, Efficiency) and current.recorded:
                state.efficiency.append(
                    EfficiencySample(snapshot.time, current.ratio, current.recorded, current.scaling, current.name)
                )
        return replace(snapshot, efficiency=tuple(state.efficiency))

    def move_times(self, seconds: float) -> None:
        """Move what is compared with later times, because the hub's clock was set by these seconds."""
        for state in self._states.values():
            state.move_times(seconds)

    def retain(self, job_ids: Iterable[str]) -> None:
        """Forget the jobs that are not among these."""
        retained = set(job_ids)
        self._states = {job_id: state for job_id, state in self._states.items() if job_id in retained}
        self.pauses.retain(retained)
