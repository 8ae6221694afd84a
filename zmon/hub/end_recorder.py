"""The recorder of ends, in two stores: each end of a launch in `ends`, and the ends by a fault in `ended_jobs` as well.

`ends` is for people and their statistics. From `ended_jobs` the hub shows a failed job after its boxes are gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from zmon.detectors import Detector
from zmon.hub.acts import Intents
from zmon.hub.api.view import view
from zmon.hub.ended_jobs import EndedJobs
from zmon.hub.ends import Ends
from zmon.hub.job_state import JobStates
from zmon.hub.journal import Journal
from zmon.hub.last_output import LastOutput
from zmon.hub.part_errors import PartErrors
from zmon.schema.finding import Finding
from zmon.schema.job import JobView
from zmon.schema.job_snapshot import Snapshot


@dataclass(frozen=True)
class EndRecorder:
    """The recorder of one hub."""

    ended_jobs: EndedJobs
    ends: Ends
    journal: Journal
    job_states: JobStates
    last_output: LastOutput
    intents: Intents | None  # None: the site allows no acts
    stall: Detector | None  # the detector that tells which fault ended a launch; None: the hub has none
    errors: PartErrors

    def update(self, snapshot: Snapshot, stalls: Sequence[Finding]) -> None:
        """Record the end of this launch if it has ended; call it in every pass.

        `stalls`: the findings that the stall detector reports about it in this pass.
        """
        active = self.journal.active_stalls(snapshot.job_id)
        fault = next((finding for finding in stalls if finding.is_stall), None)
        published = next(iter(active), None)
        view_of_job = partial(view, snapshot, self.job_states, active)
        self.ended_jobs.update(snapshot, fault, published, view_of_job)
        self._record_end(snapshot, (published or fault) if fault else None, view_of_job)

    def update_superseded(self, launches: Iterable[Snapshot]) -> None:
        """Record the ends of these launches: a newer launch of the job began before the hub saw the earlier one end."""
        if self.stall is None:
            return
        for snapshot in launches:
            is_judged = self.ended_jobs.is_judged(snapshot)
            if is_judged and self.ends.has(snapshot):
                continue
            with self.errors.isolated("earlier launches", snapshot.job_id):
                fault = next(iter(self.stall.detect(snapshot)), None)
                if not is_judged:
                    self.ended_jobs.update(snapshot, fault)
                self._record_end(snapshot, self.journal.published_as(fault) if fault else None)

    def _record_end(
        self, snapshot: Snapshot, fault: Finding | None, view_of_job: Callable[[], JobView] | None = None
    ) -> None:
        """Record the end of this launch in `ends` if it has ended. `view_of_job`: None if another launch follows."""
        acts_text = partial(self.intents.acts_text, snapshot) if self.intents else (lambda: "")
        self.ends.update(snapshot, fault, view_of_job, self.last_output.lines(snapshot), acts_text)
