"""The configuration of a hub."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from zmon.detectors import ALL, Detector
from zmon.hub.acts.policy import Policy
from zmon.hub.alert_labels import AlertLabels
from zmon.hub.discovery.target import TargetSource
from zmon.notify import Recipient
from zmon.scaling.peaks import DevicePeaks
from zmon.schema.http_config import HttpConfig
from zmon.schema.names import MAX_LABELS
from zmon.schema.shard import Shard
from zmon.web.live_config import LiveConfig

_MAX_DISCOVERED = 2048  # agents; more need another hub
_OWN_FILES = 96  # its log, libraries, and the files of findings and incidents that its threads have open at a time


@dataclass(frozen=True)
class HubConfig:
    """The configuration of a hub, from the options of `zmon hub`."""

    agents: tuple[str, ...]  # the URLs on the command line
    data_dir: Path
    detectors: tuple[Detector, ...] = ALL  # their thresholds are those that the site has set
    interval_seconds: float = 1.0
    alert_interval_seconds: float = 0.25  # interval while a rank is suspected or a job is stalled
    about_steps: int = 8  # approximate step records per rank and request; detectors compare ranks by them
    agent_timeout_seconds: float = 1.0
    wait_seconds: float = 30.0  # duration of a long poll for suspects
    max_flights: int = 512  # ranks whose flight records are gathered: those of a larger job that stand out
    max_stacks: int = 8  # ranks whose stacks are gathered for one finding
    evidence_seconds: float = 5.0  # time limit of the requests for evidence about all ranks of a job
    allowed_hosts: tuple[str, ...] = ()  # names under which clients reach this hub, beside its own
    web: LiveConfig | None = None  # TLS, users and roles of the server
    http: HttpConfig | None = None  # password, token or certificate for the agents
    socket: Path | None = None  # the Unix socket at which the only agent listens; None: agents listen on TCP ports
    shard: Shard | None = None  # only the jobs of this shard are judged; None: all jobs
    sources: tuple[TargetSource, ...] = ()  # they name further agents, which come and go
    max_job_labels: int = MAX_LABELS  # labels of a job in /metrics; a site with a low `label_limit` sets it
    alert_labels: AlertLabels = field(default_factory=AlertLabels)  # labels of jobs on their findings in /metrics
    peaks: Mapping[str, DevicePeaks] = field(default_factory=dict)  # of the site's own devices, by name
    recipients: tuple[Recipient, ...] = ()  # of notices
    policy: Policy | None = None  # which findings ask for which acts; None: no acts, and no intents
    max_requests: int = 64  # requests in flight at the same time, to agents or for the evidence of ranks

    @property
    def max_agents(self) -> int:
        """The largest number of agents that are polled. The open files for them are reserved at the start."""
        return max(len(self.agents), _MAX_DISCOVERED if self.sources else 0)

    @property
    def max_connections(self) -> int:
        """The largest number of connections: two for each agent, and those for evidence of stalls and incidents."""
        return 2 * self.max_agents + 2 * self.max_requests

    @property
    def reserved_files(self) -> int:
        """The open files that the hub needs for its own work."""
        return self.max_connections + _OWN_FILES
