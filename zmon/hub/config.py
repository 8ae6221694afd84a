"""What a hub is told when it starts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from zmon.detectors import ALL, Detector


@dataclass(frozen=True)
class HubConfig:
    """Flags of `zmon hub`."""

    agents: tuple[str, ...]
    data_dir: Path
    detectors: tuple[Detector, ...] = ALL  # with the thresholds of this site
    interval_seconds: float = 1.0
    alert_interval_seconds: float = 0.25  # while a rank is suspected or a stall goes on
    about_records: int = 8  # of a rank's steps since it was asked last: what a slow rank is told by
    agent_timeout_seconds: float = 1.0
    wait_seconds: float = 30.0  # of a long poll
    max_stacks: int = 8  # ranks asked for their stacks per finding
    evidence_seconds: float = 5.0  # for all ranks of a job together
    max_asked: int = 64  # agents, or ranks for evidence, at the same time
