"""What the hub keeps of one start of a job: its recent steps, where its time went, what its ranks had in flight, what
was planned for them."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from zmon import metrics
from zmon.hub import baseline_store
from zmon.hub.accounts import Accounts
from zmon.hub.baseline_recorder import BaselineRecorder
from zmon.hub.baseline_store import BaselineStore
from zmon.job.baseline import BaselineLearner
from zmon.job.efficiency import JobTime
from zmon.job.history import History
from zmon.job.time_account import Account
from zmon.schema.agent import AgentReport
from zmon.schema.curve import Efficiency, EfficiencySample
from zmon.schema.flight import Flight
from zmon.schema.plan import Plan
from zmon.schema.snapshot import Snapshot
from zmon.stats import quantile

SAMPLE_SECONDS = 30.0  # some of the stretches that a job's speed is told by
KEPT_SAMPLES = 240  # two hours: as long as a site may let the detector look back


@dataclass
class JobState:
    """Of the ranks with these run uids."""

    uids: set[str]
    world_size: int
    account: Account
    history: History = field(init=False)
    learning: BaselineLearner = field(default_factory=BaselineLearner)
    time: JobTime = field(default_factory=JobTime)
    flights: dict[int, Flight] = field(default_factory=dict)  # gathered for the stall that goes on
    plan: Plan | None = None  # the last that was told
    efficiency: deque[EfficiencySample] = field(default_factory=lambda: deque(maxlen=KEPT_SAMPLES))
    efficiency_due: float = 0.0  # when it is looked at next

    def __post_init__(self) -> None:
        self.history = History(self.world_size)

    def add(self, snapshot: Snapshot, reports: Collection[AgentReport], stalled: bool = False) -> Snapshot:
        """Take in what the agents newly told of the job's steps; the Snapshot with all that is known of them.

        `stalled`: a finding says that nothing moves."""
        told = {uid: steps for report in reports for uid, steps in report.records.pop(snapshot.job_id, {}).items()}
        fresh = {r.rank: told[r.run_uid] for r in snapshot.ranks if r.run_uid in told}
        steps = self.history.add(fresh)
        self.time.add(steps)
        self.account.observe(steps, metrics.STEP_SECONDS_BOUNDS)
        self.account.update(snapshot, steps, quantile(self.time.recent_seconds, 0.5) or 0.0, stalled)
        self.learning.add(steps)
        for plan in (report.plans[uid] for report in reports for uid in report.plans.keys() & self.uids):
            if len(plan.tables) == self.world_size:
                self.plan = plan
        return replace(
            snapshot,
            steps=tuple(self.history.steps),
            stretches=tuple(self.learning.stretches),
            baseline=self.learning.baseline,
            not_finite=self.history.not_finite(snapshot.ranks),
            flights=self.flights,
            plan=self.plan,
        )


class JobStates:
    """By job."""

    def __init__(self, data_dir: Path) -> None:
        self._books: dict[str, JobState] = {}
        self.accounts = Accounts(data_dir / "accounts")
        self.curves = BaselineRecorder(BaselineStore(data_dir / baseline_store.FOLDER))

    def of(self, snapshot: Snapshot) -> JobState:
        """That of this start of the job: none of its ranks, or another number of them, is another start."""
        uids = {r.run_uid for r in snapshot.known}
        book = self._books.get(snapshot.job_id)
        if book is None or not book.uids & uids or book.world_size != snapshot.world_size:
            book = self._books[snapshot.job_id] = JobState(uids, snapshot.world_size, self.accounts.of(snapshot))
        elif book.account.is_other_job(snapshot):  # its ranks came one by one
            book.account = self.accounts.of(snapshot)
        book.uids |= uids
        return book

    def with_efficiency(self, snapshot: Snapshot, state: str) -> Snapshot:
        """The Snapshot with what the job reached of what was recorded at its size, as far back as that is known."""
        book = self.of(snapshot)
        if snapshot.time >= book.efficiency_due:
            book.efficiency_due = snapshot.time + SAMPLE_SECONDS
            now = self.curves.efficiency(snapshot, state)
            if isinstance(now, Efficiency) and now.recorded:
                sample = EfficiencySample(snapshot.time, now.ratio, now.recorded, now.scaling, now.name)
                book.efficiency.append(sample)
        return replace(snapshot, efficiency=tuple(book.efficiency))

    def keep(self, job_ids: Iterable[str]) -> None:
        """Forget all others."""
        known = set(job_ids)
        self._books = {job_id: book for job_id, book in self._books.items() if job_id in known}
