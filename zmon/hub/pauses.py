"""The pauses that healed: each was a stall that only silence showed, and that ended because all ranks went on.

The recorder learns within a launch and across launches of jobs of one name. The stall detector compares the next pause
at the same place with what was learned (zmon/detectors/hangs/silence.py). On disk there is one file for all jobs of one
name, `pauses/<name>.json`. A place is forgotten a day after its last pause, because the code, the data or the storage
may have changed. If a file cannot be used, the next pause of these jobs is a warning again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

import msgspec
from msgspec import UNSET

from zmon.hub.baseline_recorder import pauses_name
from zmon.hub.json_folder import JsonFolder, decoder
from zmon.schema.evidence import StallEvidence
from zmon.schema.finding import Finding
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.pause import HealedPause, Place, Silence
from zmon.steplog.files import SteadyClock

FOLDER = "pauses"  # name of the folder in the data directory
MAX_AGE_SECONDS = 86400.0
MAX_PLACES = 64  # places of one name; a job has a few


class _PauseFile(msgspec.Struct):
    schema: int
    name: str
    pauses: list[HealedPause]


class PauseStore(JsonFolder[_PauseFile]):
    """The pauses that healed, by name of the jobs."""

    def __init__(self, folder: Path, clock: SteadyClock | None = None) -> None:
        super().__init__(
            folder,
            decoder(_PauseFile),
            if_unusable="the pauses of these jobs are learned anew",
            if_unwritten="the pauses that healed are kept in memory only",
            clock=clock,
        )

    def pauses(self, name: str, now: float) -> tuple[HealedPause, ...]:
        """Return the pauses of the jobs of that name in the last day, the longest first. `now` is in unix seconds.

        If it is due, also write what could not be written, and delete old files.
        """
        self.retry(now)
        self.prune(now, lambda key: self._is_old(key, now))
        steady = self.clock.is_steady()
        recent = (pause for pause in self._recorded(name) if not steady or _is_recent(pause, now))
        return tuple(sorted(recent, key=lambda pause: -pause.longest_seconds))

    def record(self, name: str, places: Sequence[Place], seconds: float, now: float) -> None:
        """Record a pause of that length at each of these places."""
        known = {pause.place: pause for pause in self.pauses(name, now)}
        for place in places:
            earlier = known.get(place)
            longest = max(seconds, earlier.longest_seconds if earlier else 0.0)
            number = earlier.number + 1 if earlier else 1
            known[place] = HealedPause(place, longest_seconds=round(longest, 3), number=number, last_time=now)
        newest = sorted(known.values(), key=lambda pause: -pause.last_time)[:MAX_PLACES]
        self.put(name, _PauseFile(schema=1, name=name, pauses=newest))

    def _recorded(self, name: str) -> list[HealedPause]:
        content = self.get(name)
        return content.pauses[:MAX_PLACES] if content else []

    def _is_old(self, name: str, now: float) -> bool:
        recent = any(_is_recent(pause, now) for pause in self._recorded(name))
        return not recent and name not in self.unusable


def _is_recent(pause: HealedPause, now: float) -> bool:
    return abs(now - pause.last_time) < MAX_AGE_SECONDS  # the clock may have been set back


@dataclass(frozen=True, slots=True)
class _Standstill:
    """A job that stands still, or stood still a moment ago and has not finished a step since then."""

    steps: dict[str, int]  # run uid → steps that the rank had finished
    # The silence that the stall detector reported last, with the places of all its reports. None: something proved the
    # stall, so it is no pause.
    silence: Silence | None

    def has_moved(self, snapshot: Snapshot) -> bool:
        """Return True if every rank of the launch is reported, and has finished a step since then."""
        steps = {r.run_uid: r.steps for r in snapshot.ranks}
        is_complete = not snapshot.unwatched and steps.keys() == self.steps.keys()
        return is_complete and all(steps[uid] > earlier for uid, earlier in self.steps.items())


def _continued(standstill: _Standstill | None, steps: dict[str, int], stalls: Sequence[Finding]) -> _Standstill | None:
    """Return the standstill as of this pass; None if the job does not stand still.

    `steps`: the steps that each rank has finished, by run uid. `stalls`: what the stall detector reports.
    """
    reports = [finding.evidence_of(StallEvidence).silence for finding in stalls]
    silence = next((report for report in reports if report is not UNSET), None)
    if silence is None:  # if there is a stall, it is proven
        return _Standstill(steps, None) if stalls else standstill
    if standstill is None:
        standstill = _Standstill(steps, silence)
    if standstill.silence is None:  # a proof counts until all ranks go on: a stopped rank needs seconds to catch up
        return standstill
    # The stacks of ranks that work during a pause differ from one sample to the next.
    places = tuple(dict.fromkeys((*silence.places, *standstill.silence.places)))[:MAX_PLACES]
    return _Standstill(standstill.steps, msgspec.structs.replace(silence, places=places))


class PauseRecorder:
    """The recorder of one hub: it notices standstills, and records those that end as pauses."""

    def __init__(self, store: PauseStore) -> None:
        self.store = store
        self._standstills: dict[str, _Standstill] = {}  # by job

    def pauses(self, snapshot: Snapshot) -> tuple[HealedPause, ...]:
        """Return the pauses that healed in jobs of this job's name in the last day, the longest first."""
        return self.store.pauses(pauses_name(snapshot), snapshot.time)

    def observe(self, snapshot: Snapshot, stalls: Sequence[Finding]) -> None:
        """Learn from one pass over a job; `stalls` are what the stall detector reports in it."""
        standstill = self._standstills.get(snapshot.job_id)
        if standstill is not None and standstill.has_moved(snapshot):
            if standstill.silence is not None and all(r.alive for r in snapshot.ranks):
                self._record(snapshot, standstill.silence)
            standstill = None
        steps = {r.run_uid: r.steps for r in snapshot.ranks}
        if standstill is not None and steps.keys().isdisjoint(standstill.steps):
            standstill = None  # these ranks are of another launch
        standstill = _continued(standstill, steps, stalls)
        if standstill is None:
            self._standstills.pop(snapshot.job_id, None)
        else:
            self._standstills[snapshot.job_id] = standstill

    def _record(self, snapshot: Snapshot, silence: Silence) -> None:
        if silence.places and isfinite(silence.seconds):
            self.store.record(pauses_name(snapshot), silence.places, silence.seconds, snapshot.time)

    def retain(self, job_ids: Iterable[str]) -> None:
        """Forget the jobs that are not among these."""
        retained = set(job_ids)
        self._standstills = {job_id: s for job_id, s in self._standstills.items() if job_id in retained}
