"""What the agent reads: one source per file, one line here to register it.

A source has a name, an interval in seconds and a `read()` that returns what it saw, raises SourceUnavailable where the
machine has nothing of the kind, and anything else when it failed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from zmon.sources.gpu import GpuSource
from zmon.sources.host import HostSource
from zmon.sources.nic import NicSource


class Source(Protocol):
    """One thing to read."""

    name: str
    field: str  # of HostSample, where its reading goes
    interval_seconds: float

    def read(self) -> Any:
        """The reading."""


def all_sources(sys: Path = Path("/sys")) -> tuple[Source, ...]:
    """Every hardware source. Black boxes are read apart, ten times a second."""
    return (NicSource(sys), GpuSource(), HostSource())
