"""The ends of all launches, on disk as `ends.jsonl`: one line for each end. The last line with an id is the valid one.

`zmon/job/outcome.py` decides whether a launch has ended, and how. Ends stay for 90 days, at most 20,000 of them.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from zmon.format import counted
from zmon.hub.json_lines import JsonLines
from zmon.hub.write_errors import WriteErrors
from zmon.job.outcome import ended_launch, followed, has_ended, launch_key, restarted
from zmon.schema.ended_launch import EndedLaunch
from zmon.schema.finding import Finding
from zmon.schema.job import JobView
from zmon.schema.job_snapshot import Snapshot
from zmon.steplog.files import SteadyClock

log = logging.getLogger("zmon.ends")

FILE = "ends.jsonl"  # name of the file in the data directory
MAX_AGE_SECONDS = 90 * 86400.0
MAX_ENDS = 20_000  # 20 MB
_LOST = "the ends of launches are lost when the hub ends: free some disk space there"


class Ends:
    """The ends of launches, by the id of the launch."""

    def __init__(self, path: Path, clock: SteadyClock | None = None) -> None:
        self._clock = clock or SteadyClock()
        self._ends: dict[str, EndedLaunch] = {}  # in the order in which they were recorded
        self._newest_ids: dict[str, str] = {}  # job id → id of its newest end
        self.recoveries: dict[str, Mapping[str, float]] = {}  # job id → seconds by phase of its newest recovery
        self._unreadable: list[bytes] = []  # lines of another version of zmon, which stay as they are
        self._new: list[EndedLaunch] = []  # for `take_new`
        self.counts: Counter[str] = Counter()  # ends that this hub recorded, by outcome
        self._errors = WriteErrors(log, _LOST)
        self._file = JsonLines(path, self._errors, self._read, self._lines)
        self._file.open()

    @property
    def error(self) -> str | None:
        """The reason why ends cannot be written, or None."""
        return self._errors.error

    def all(self) -> list[EndedLaunch]:
        """Return all ends, newest first."""
        return sorted(self._ends.values(), key=lambda end: end.ended, reverse=True)

    def has(self, snapshot: Snapshot) -> bool:
        """Return True if the end of this launch is recorded."""
        return launch_key(snapshot) in self._ends

    def take_new(self) -> list[EndedLaunch]:
        """Return the ends that were recorded since the last call, oldest first."""
        taken, self._new = self._new, []
        return taken

    def update(
        self,
        snapshot: Snapshot,
        fault: Finding | None,
        view: Callable[[], JobView] | None,
        output: tuple[str, ...] = (),
        acts_text: Callable[[], str] = lambda: "",
    ) -> None:
        """Record the end of this launch, or what followed the end before it; call it in every pass.

        `fault` is the finding about what ended the launch, None if nothing did. `view` makes the view of the job; None:
        another launch follows. `output`: the last lines of the ranks that ended first. `acts_text` returns what zmon
        did to the launch, empty if nothing.
        """
        self._update_previous(snapshot, lambda previous: restarted(previous, snapshot))
        if self.has(snapshot) or not has_ended(snapshot, fault):
            return
        end = ended_launch(snapshot, fault, view() if view else None, output)
        if acts := acts_text():
            end = msgspec.structs.replace(end, summary=f"{acts}; {end.summary}")
        log.info("job %s ended: %s: %s", end.job_id, end.outcome, end.summary)
        self.counts[end.outcome] += 1
        self._update_previous(snapshot, lambda previous: followed(previous, end))
        self._put(end)
        self._new.append(end)

    def maintain(self, now: float) -> None:
        """Write what could not be written, and forget old ends while the clock is steady; call it in every pass."""
        self._file.retry(now)
        is_steady = self._clock.is_steady()
        while self._ends:
            oldest = next(iter(self._ends.values()))
            is_old = is_steady and now - oldest.recorded > MAX_AGE_SECONDS
            if not is_old and len(self._ends) <= MAX_ENDS:
                return
            del self._ends[oldest.id]

    def _previous_end(self, snapshot: Snapshot) -> EndedLaunch | None:
        """Return the end of the job's previous launch, if the same launcher started both."""
        end = self._ends.get(self._newest_ids.get(snapshot.job_id, ""))
        launch = snapshot.reported_ranks[0].launch_id
        return end if end and launch and end.id == f"{launch}-{end.attempt}" else None

    def _update_previous(self, snapshot: Snapshot, update: Callable[[EndedLaunch], EndedLaunch]) -> None:
        previous = self._previous_end(snapshot)
        if previous is not None and (updated := update(previous)) != previous:
            self._put(updated)

    def _put(self, end: EndedLaunch) -> None:
        self._remember(end)
        self._file.append(msgspec.json.encode(end) + b"\n")

    def _remember(self, end: EndedLaunch) -> None:
        self._ends[end.id] = end
        self._newest_ids[end.job_id] = end.id
        if end.restart and end.restart.phases:
            self.recoveries[end.job_id] = end.restart.phases

    def _read(self, lines: Sequence[bytes]) -> None:
        """Take the ends that earlier hubs recorded."""
        recorded, self._ends = self._ends, {}
        for line in lines:
            try:
                end = msgspec.json.decode(line, type=EndedLaunch)
            except msgspec.DecodeError:
                self._unreadable.append(line)
            else:
                self._remember(end)
        self._ends |= recorded
        if self._unreadable:
            log.warning("%s damaged or of another version of zmon: kept", counted(len(self._unreadable), "end"))

    def _lines(self) -> Iterator[bytes]:
        yield from (line + b"\n" for line in self._unreadable)
        yield from (msgspec.json.encode(end) + b"\n" for end in self._ends.values())
