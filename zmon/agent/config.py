"""What an agent is told when it starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from zmon.errors import UsageError
from zmon.job.lease import Leases


@dataclass(frozen=True)
class AgentConfig:
    """Flags of `zmon agent`."""

    box_dir: Path
    host: str
    data_dir: Path | None = None  # where the step log goes; None: there is none
    without: frozenset[str] = frozenset()  # sources that are left off
    leases: Leases = field(default_factory=Leases)
    look_interval_seconds: float = 0.1
    look_timeout_seconds: float = 2.0
    source_timeout_seconds: float = 5.0  # a source that hangs is marked down and left alone
    source_core_ratio: float = 0.01  # with tens of thousands of connections or devices it is read less often
    log_interval_seconds: float = 2.0
    answer_seconds: float = 1.0  # how long who asks waits for a look that goes on
    max_wait_seconds: float = 60.0  # of a long poll
    max_records_per_rank: int = 1024  # in one answer: about 20 s of 20 ms steps

    def check_names(self, names: Sequence[str]) -> None:
        """Whether all sources to leave off are among these. Raises UsageError."""
        unknown = ", ".join(sorted(self.without - set(names)))
        if unknown:
            there_are = f"there are {', '.join(names)}"
            raise UsageError(f"no source is called {unknown}", there_are, "name those with --without")
