"""The jobs that a fault ended, on disk as `ended/<job_id>.json`: a failed job stays visible after its boxes are gone.

`zmon/job/ended_job.py` decides what is recorded and for how long.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import NamedTuple

from zmon.hub.json_folder import JsonFolder, decoder
from zmon.job.ended_job import SHOWN_SECONDS, JobRecord, after_launch, moved, with_end
from zmon.job.restarts import is_over, is_settled, launch_began, launch_end
from zmon.schema.ended_launch import LaunchEnd
from zmon.schema.finding import Finding
from zmon.schema.job import EndedJob, JobView
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.names import SCHEMA
from zmon.steplog.files import SteadyClock

FOLDER = "ended"  # name of the folder in the data directory
MAX_JOBS = 200  # a person does not read more; the oldest ends are forgotten first


class _JudgedLaunch(NamedTuple):
    """A launch whose end was judged."""

    began: float  # unix seconds by the hub's clock
    run_uids: frozenset[str]

    def is_about(self, snapshot: Snapshot) -> bool:
        return any(r.run_uid in self.run_uids for r in snapshot.reported_ranks)


class EndedJobs(JsonFolder[JobRecord]):
    """The records of jobs that a fault ended, by job id."""

    def __init__(self, folder: Path, clock: SteadyClock | None = None) -> None:
        super().__init__(
            folder,
            decoder(JobRecord, SCHEMA),
            if_unusable="the end of that job is not shown",
            if_unwritten="the end of the job is lost when the hub ends",
            sync=True,
            clock=clock,
        )
        self._records: dict[str, JobRecord] = {}
        for job_id in self.stored_keys():
            record = self.get(job_id)
            if record and record.ends and record.job_id == job_id:
                self._records[job_id] = record
        self._judged: dict[str, _JudgedLaunch] = {}  # job id → the newest launch whose end was judged

    def move_times(self, seconds: float) -> None:
        """Move when launches began and ended, because the hub's clock was set by these seconds."""
        self._judged = {key: launch._replace(began=launch.began + seconds) for key, launch in self._judged.items()}
        for job_id, record in list(self._records.items()):
            self._put(job_id, moved(record, seconds))

    def earlier_ends(self, snapshot: Snapshot) -> tuple[LaunchEnd, ...]:
        """Return the ends of the job's launches before this one, oldest first."""
        record = self._records.get(snapshot.job_id)
        return record.earlier_ends(snapshot) if record else ()

    def is_judged(self, snapshot: Snapshot) -> bool:
        """Return True if the end of this launch, or of a later one, has been judged since the hub started."""
        judged = self._judged.get(snapshot.job_id)
        return judged is not None and (judged.is_about(snapshot) or launch_began(snapshot) < judged.began)

    def update(
        self,
        snapshot: Snapshot,
        fault: Finding | None,
        published: Finding | None = None,
        view: Callable[[], JobView] | None = None,
    ) -> None:
        """Update the record of a job; call it in every pass.

        `fault` is what the stall detector reports about this launch now, None if nothing; `published` is the open
        finding about it. `view` makes the job's view, None for a launch that another one followed. The launch is
        recorded as ended once all of its watched ranks are gone.
        """
        record = self._records.get(snapshot.job_id)
        if is_over(snapshot) and (fault is not None or is_settled(snapshot)) and not self.is_judged(snapshot):
            uids = frozenset(r.run_uid for r in snapshot.reported_ranks)
            self._judged[snapshot.job_id] = _JudgedLaunch(launch_began(snapshot), uids)
        if fault is not None and fault.severity != "info" and is_over(snapshot):
            end = launch_end(snapshot, fault)
            self._put(snapshot.job_id, with_end(record, snapshot, published or fault, end, view))
        elif fault is None and record is not None:
            self._put(snapshot.job_id, after_launch(record, snapshot))

    def ended(self, job_id: str, now: float) -> EndedJob | None:
        """Return the end of the job; None if no fault ended it within the last day, or it goes on since then."""
        record = self._records.get(job_id)
        return record.ended(now) if record else None

    def views(self, now: float, except_ids: Collection[str]) -> list[JobView]:
        """Return the last view of each ended job that is not among these, by job id."""
        records = (self._records[job_id] for job_id in sorted(self._records.keys() - set(except_ids)))
        return [record.view for record in records if record.view and record.ended(now)]

    def forget_old(self, now: float, reported: Collection[str]) -> None:
        """Forget ends that are older than a day, and the oldest ones beyond the maximum number.

        Their age counts only while the clock is steady. `reported` are the ids of the jobs that agents report.
        """
        self._judged = {job_id: launch for job_id, launch in self._judged.items() if job_id in reported}
        self.retry(now)
        steady = self.clock.is_steady()
        newest_first = sorted(self._records.values(), key=lambda record: -record.ends[-1].ended)
        for index, record in enumerate(newest_first):
            if index >= MAX_JOBS or (steady and now - record.ends[-1].ended > SHOWN_SECONDS):
                self._put(record.job_id, None)

    def _put(self, job_id: str, record: JobRecord | None) -> None:
        if record == self._records.get(job_id):
            return
        if record is None:
            del self._records[job_id]
        else:
            self._records[job_id] = record
        self.put(job_id, record)
