"""The pauses that healed, on disk as `pauses/<name>.json`: one file for all jobs of one name.

A place is forgotten a day after its last pause, because the code, the data or the storage has changed since. A file
that cannot be read is ignored: the next pause of these jobs is a warning again.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from zmon.hub.json_folder import JsonFolder
from zmon.schema.pause import HealedPause, Place
from zmon.steplog.files import SteadyClock

FOLDER = "pauses"  # name of the folder in the data directory
MAX_AGE_SECONDS = 86400.0
MAX_PLACES = 64  # places of one name; a job has a few


class _PauseFile(msgspec.Struct):
    """The content of a file."""

    schema: int
    name: str
    pauses: list[HealedPause]


class PauseStore(JsonFolder[_PauseFile]):
    """The pauses that healed, by name of the jobs."""

    def __init__(self, folder: Path, clock: SteadyClock | None = None) -> None:
        super().__init__(
            folder,
            msgspec.json.Decoder(_PauseFile).decode,
            "the pauses of these jobs are learned anew",
            "the pauses that healed are kept in memory only",
            clock=clock,
        )

    def pauses(self, name: str, now: float) -> tuple[HealedPause, ...]:
        """Return the pauses of the jobs of that name in the last day, the longest first. `now` is in unix seconds."""
        self.retry(now)
        self.prune(now, lambda name: not any(_is_recent(pause, now) for pause in self._recorded(name)))
        steady = self.clock.is_steady()
        recent = (pause for pause in self._recorded(name) if not steady or _is_recent(pause, now))
        return tuple(sorted(recent, key=lambda pause: -pause.longest_seconds))

    def record(self, name: str, places: Sequence[Place], seconds: float, now: float) -> None:
        """Record a pause of that length at each of these places."""
        known = {pause.place: pause for pause in self.pauses(name, now)}
        for place in places:
            earlier = known.get(place)
            longest = max(seconds, earlier.longest_seconds if earlier else 0.0)
            known[place] = HealedPause(place, round(longest, 3), (earlier.number if earlier else 0) + 1, now)
        newest = sorted(known.values(), key=lambda pause: -pause.last_time)[:MAX_PLACES]
        self.put(name, _PauseFile(1, name, newest))

    def _recorded(self, name: str) -> list[HealedPause]:
        content = self.get(name)
        return content.pauses[:MAX_PLACES] if content and content.schema == 1 else []


def _is_recent(pause: HealedPause, now: float) -> bool:
    return abs(now - pause.last_time) < MAX_AGE_SECONDS  # the clock may have been set back
