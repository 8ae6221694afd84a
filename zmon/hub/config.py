"""The configuration of a hub."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from zmon.detectors import ALL, Detector


@dataclass(frozen=True)
class HubConfig:
    """The configuration of a hub, from the options of `zmon hub`."""

    agents: tuple[str, ...]
    data_dir: Path
    detectors: tuple[Detector, ...] = ALL  # with the thresholds that the site has set
    interval_seconds: float = 1.0
    alert_interval_seconds: float = 0.25  # while a rank is suspected or a job is stalled
    about_records: int = 8  # step records per rank and request, about; detectors compare ranks by them
    agent_timeout_seconds: float = 1.0
    wait_seconds: float = 30.0  # of a long poll for suspects
    max_stacks: int = 8  # ranks whose stacks are gathered for one finding
    evidence_seconds: float = 5.0  # to gather the evidence of all ranks of a job
    max_requests: int = 64  # in flight at the same time, to agents or for the evidence of ranks
