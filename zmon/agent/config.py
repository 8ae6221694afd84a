"""The configuration of an agent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from zmon.agent.sources.pods import PodSource
from zmon.box.roots import PLACES, Places
from zmon.errors import UsageError
from zmon.job.lease import Leases
from zmon.web.live_config import LiveConfig


@dataclass(frozen=True)
class AgentConfig:
    """The options of `zmon agent`, its intervals and its limits."""

    box_dir: Path | None  # the only directory of boxes; None: those of all users
    host: str
    pods_dir: Path | None = None  # directory of the pods of a kubelet, whose volumes of boxes are read as well
    pods: PodSource | None = None  # asks the API server which pods of this node hold GPUs; None: pods are not listed
    data_dir: Path | None = None  # folder of the step log and of the ledger of acts; None: neither
    watch: int = 0  # only the ranks that this `zmon watch` has started; 0: all ranks
    without: frozenset[str] = frozenset()  # names of sources that are switched off
    hub_users: frozenset[int] = frozenset()  # uids with the rights of a local hub: evidence of all ranks, and acts
    allow_actions: bool = False  # ranks and launchers may be ended, if a hub asks and the agent decides so
    leases: Leases = field(default_factory=Leases)
    scan_interval_seconds: float = 0.1  # time between two scans of the boxes
    scan_timeout_seconds: float = 2.0  # if a scan takes longer, the boxes count as unreadable
    source_timeout_seconds: float = 5.0  # a source that takes longer is marked down; its thread is left alone
    source_core_ratio: float = 0.01  # a source that needs a larger share of a core is read less often
    log_interval_seconds: float = 2.0  # time between two appends to the step log
    answer_seconds: float = 1.0  # how long a request waits for a scan in progress
    history_answer_seconds: float = 10.0  # how long a request for all steps waits for one rank, behind other requests
    max_evidence: int = 8  # requests for evidence at the same time: each runs py-spy; a node has eight ranks
    max_series: int | None = None  # on the page /metrics; None: no limit
    allowed_hosts: tuple[str, ...] = ()  # names under which clients reach this agent, beside its own
    web: LiveConfig | None = None  # TLS, users and roles of the server
    # Open files for the agent's own work: the box of each rank twice (hub and step log), and the files of sources.
    reserved_files: int = 384
    max_wait_seconds: float = 60.0  # upper limit of a long poll
    max_steps_per_rank: int = 1024  # limit of one answer; 1,024 steps are about 20 s of 20 ms steps

    @property
    def places(self) -> Places:
        """The directories in which the directories of users are, and the pods of this node."""
        return replace(PLACES, pods=self.pods_dir)

    def check_names(self, names: Sequence[str]) -> None:
        """Raise UsageError if `without` names a source that is not among these names."""
        unknown = ", ".join(sorted(self.without - set(names)))
        if unknown:
            sources = f"the sources are {', '.join(names)}"
            raise UsageError(f"no source is called {unknown}", sources, "correct the names in --without")
