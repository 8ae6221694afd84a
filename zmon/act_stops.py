"""The stops of acts: while `act-stops/all` is in the data directory, nothing is done to any process.

A person writes a stop (`zmon act stop`) and removes it (`zmon act reset`). zmon itself writes a stop when a *breaker*
trips: a guard against too many acts. It never removes a stop. A stop is a file. Its name says what it stops. Its JSON
says who wrote it, when and why. If the folder or a file in it cannot be read, acts are stopped as well.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from zmon.steplog.files import child_path, replace_file

FOLDER, ALL = "act-stops", "all"
_MAX_BYTES = 4096  # of a stop; a longer one counts as one that cannot be read


class Stop(msgspec.Struct, frozen=True):
    """A stop of acts, as in its file."""

    time: float  # unix seconds
    by: str  # who wrote it: a user, or the part of zmon whose breaker it is
    reason: str  # in one line
    is_breaker: bool = False  # zmon itself wrote it

    @property
    def kind(self) -> Literal["breaker", "person"]:
        """The kind of its author, as in the label `by` of metrics."""
        return "breaker" if self.is_breaker else "person"


def stops(data_dir: Path) -> Mapping[str, Stop]:
    """Return the stops by name; the name is ALL, or that of an act or of a rule. What cannot be read is a stop."""
    folder = data_dir / FOLDER
    try:
        paths = sorted(path for path in folder.iterdir() if not path.name.startswith("."))  # `.all.partial`
    except FileNotFoundError:
        return {}
    except OSError as error:
        return {ALL: Stop(0.0, "zmon", f"{folder} cannot be read ({error.strerror})", is_breaker=True)}
    return {path.name: _read(path) for path in paths}


def _read(path: Path) -> Stop:
    try:
        with path.open("rb") as file:
            return msgspec.json.decode(file.read(_MAX_BYTES), type=Stop)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        reason = f"{path} has no reason that can be read ({getattr(error, 'strerror', error)})"
        return Stop(0.0, "unknown", reason, is_breaker=True)


def stop(
    data_dir: Path, name: str, reason: str, by: str, is_breaker: bool = False, clock: Callable[[], float] = time.time
) -> None:
    """Write a stop. Raises OSError, and UsageError if the name cannot be that of a file."""
    path = child_path(data_dir / FOLDER, name)
    replace_file(path, [msgspec.json.encode(Stop(clock(), by, reason, is_breaker))])


def reset(data_dir: Path, name: str) -> None:
    """Remove a stop, if there is one. Raises OSError, and UsageError as `stop` does."""
    child_path(data_dir / FOLDER, name).unlink(missing_ok=True)
