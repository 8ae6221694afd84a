"""The record of a job whose last launch a fault ended: its end, the view of the job then, and the ends before it.

Pure; `zmon/hub/ended_jobs.py` keeps the records on disk. The end of a job stays for a day, or until a newer launch has
finished a step. The ends of launches stay until one makes progress, which ends a crash loop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import msgspec

from zmon.job.restarts import ended_well, has_left, is_over, launch_began
from zmon.schema.ended_launch import LaunchEnd
from zmon.schema.finding import Finding
from zmon.schema.job import EXITED, EndedJob, JobView
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.names import SCHEMA
from zmon.schema.row import row_of

SHOWN_SECONDS = 86400.0  # a person looks at failed jobs once a day
# A day of a launcher that waits 5 minutes before each start. Of a longer loop the oldest ends are forgotten.
MAX_ENDS = 300


class JobRecord(msgspec.Struct, frozen=True):
    """The record of one job. Stored on disk under the names of these fields."""

    job_id: str
    run_uids: frozenset[str]  # ranks of the launch that ended last
    ends: tuple[LaunchEnd, ...]  # launches that faults ended, oldest first; never empty
    view: JobView | None  # the job after its end; None: a newer launch has stepped since
    schema: int = SCHEMA

    @property
    def began(self) -> float:
        """The time at which the launch that ended last began, by the hub's clock."""
        return self.ends[-1].began

    def is_about(self, snapshot: Snapshot) -> bool:
        """Return True if this is the launch that ended last."""
        return any(r.run_uid in self.run_uids for r in snapshot.reported_ranks)

    def earlier_ends(self, snapshot: Snapshot) -> tuple[LaunchEnd, ...]:
        """Return the ends of the launches before this one."""
        if self.is_about(snapshot):
            return self.ends[:-1]
        return self.ends if launch_began(snapshot) > self.began else ()

    def ended(self, now: float) -> EndedJob | None:
        """Return the end of the job, if it is not older than a day."""
        end = self.view.ended if self.view else None
        return end if end and now - end.time < SHOWN_SECONDS else None


def moved(record: JobRecord, seconds: float) -> JobRecord:
    """Return the record with all times of the hub's clock later by these seconds."""
    ends = tuple(replace(end, began=end.began + seconds, ended=end.ended + seconds) for end in record.ends)
    view = record.view
    if view is not None and view.ended is not None:
        view = replace(view, ended=replace(view.ended, time=view.ended.time + seconds))
    return msgspec.structs.replace(record, ends=ends, view=view)


def with_end(
    record: JobRecord | None, snapshot: Snapshot, finding: Finding, end: LaunchEnd, view: Callable[[], JobView] | None
) -> JobRecord:
    """Return the record after a launch that this finding ended. `view` makes the job's view; None: a launch follows.

    While the job stays ended, the record changes only with the diagnosis: the text of a finding has ages that grow.
    """
    earlier: tuple[LaunchEnd, ...] = ()
    if record is not None:
        last = record.view and record.view.ended
        is_same = record.is_about(snapshot)
        if not is_same and end.began <= record.began:
            return record  # an earlier launch, whose boxes are still there
        if is_same and last and _diagnosis(last) == _diagnosis(finding):
            return record
        if is_same:
            end = replace(end, ended=record.ends[-1].ended, began=record.began)
        earlier = record.earlier_ends(snapshot)
    return JobRecord(
        job_id=snapshot.job_id,
        run_uids=frozenset(r.run_uid for r in snapshot.reported_ranks),
        ends=(*earlier, end)[-MAX_ENDS:],
        view=_last_view(view(), finding, end) if view else None,
    )


def after_launch(record: JobRecord, snapshot: Snapshot) -> JobRecord | None:
    """Return the record while no fault ends the launch in this snapshot; None if there is nothing to record any more.

    A launch that was taken for ended may have a living rank after all, which was unwatched, or no fault.
    """
    if record.is_about(snapshot):
        if is_over(snapshot) and not ended_well(snapshot):
            return record
        ends = record.ends[:-1]
        return msgspec.structs.replace(record, run_uids=frozenset(), ends=ends, view=None) if ends else None
    if launch_began(snapshot) <= record.began:
        return record
    if ended_well(snapshot) or has_left(record.ends, snapshot):
        return None
    has_stepped = any(r.steps > 0 for r in snapshot.ranks)
    return msgspec.structs.replace(record, view=None) if has_stepped and record.view else record


def _diagnosis(end: EndedJob | Finding) -> tuple[object, ...]:
    return end.cause, end.severity, end.ranks, end.hosts


def _last_view(view: JobView, finding: Finding, end: LaunchEnd) -> JobView:
    """Return the view of the job after its end, without the figures of a job that runs."""
    return replace(
        view,
        state=EXITED,
        ranks_seen=0,
        step_seconds=None,
        step_seconds_p95=None,
        samples_per_second=None,
        findings=(),
        efficiency=None,
        efficiency_unknown="",
        expected=None,
        expected_unknown="",
        ended=row_of(EndedJob, finding, time=end.ended, attempt=end.attempt, step=end.step, finding=finding.id),
    )
