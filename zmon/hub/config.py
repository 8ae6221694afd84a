"""The configuration of a hub."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from zmon.detectors import ALL, Detector
from zmon.schema.labels import MAX_LABELS


@dataclass(frozen=True)
class HubConfig:
    """The configuration of a hub, from the options of `zmon hub`."""

    agents: tuple[str, ...]
    data_dir: Path
    detectors: tuple[Detector, ...] = ALL  # their thresholds are those that the site has set
    interval_seconds: float = 1.0
    alert_interval_seconds: float = 0.25  # interval while a rank is suspected or a job is stalled
    about_records: int = 8  # approximate step records per rank and request; detectors compare ranks by them
    agent_timeout_seconds: float = 1.0
    wait_seconds: float = 30.0  # duration of a long poll for suspects
    max_stacks: int = 8  # ranks whose stacks are gathered for one finding
    evidence_seconds: float = 5.0  # time limit for the evidence of all ranks of a job
    max_job_labels: int = MAX_LABELS  # labels of a job in /metrics; a site with a low `label_limit` sets it
    max_requests: int = 64  # requests in flight at the same time, to agents or for the evidence of ranks
