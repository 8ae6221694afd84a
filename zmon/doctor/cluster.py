"""The hub and whom it sees: which agents answer, which sources are down, which detectors can speak of which job."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import aiohttp

import zmon
from zmon.doctor import thresholds
from zmon.doctor.check import TIMEOUT_SECONDS, Check
from zmon.errors import NotServed, Unreachable
from zmon.format import counted, listed
from zmon.schema.agent import AgentStatus
from zmon.schema.api import (
    DetectorList,
    DetectorsRequest,
    DetectorState,
    HubHealth,
    HubHealthRequest,
    JobList,
    JobsRequest,
    endpoints,
)
from zmon.web import client

T = TypeVar("T")


@dataclass(frozen=True)
class ClusterView:
    """What the hub answered; in place of an answer that did not come, why."""

    hub: str
    health: HubHealth | Unreachable
    told: JobList | Unreachable
    detectors: DetectorList | Unreachable

    @property
    def jobs(self) -> list[str]:
        """Ids of the jobs it watches; none where it did not say."""
        return [] if isinstance(self.told, Unreachable) else [job.job_id for job in self.told.jobs]

    @property
    def hosts(self) -> list[str]:
        """Hosts of the agents it heard of; none where it did not say."""
        agents = [] if isinstance(self.health, Unreachable) else self.health.agents
        return sorted({agent.host for agent in agents if agent.host})


async def ask(session: aiohttp.ClientSession, hub: str) -> ClusterView:
    """All that doctor wants to know of the hub, at once."""

    async def or_why(question: Awaitable[T]) -> T | Unreachable:
        try:
            return await question
        except Unreachable as error:
            return error

    return ClusterView(
        hub,
        *await asyncio.gather(
            or_why(
                client.ask(session, hub, endpoints.HUB_HEALTH, HubHealthRequest(), TIMEOUT_SECONDS, accepted=(503,))
            ),
            or_why(client.ask(session, hub, endpoints.JOBS, JobsRequest(), TIMEOUT_SECONDS)),
            or_why(client.ask(session, hub, endpoints.DETECTORS, DetectorsRequest(), TIMEOUT_SECONDS)),
        ),
    )


def checks(seen: ClusterView) -> list[Check]:
    """The hub, then each agent that is not as it should be, then the detectors."""
    if isinstance(seen.told, Unreachable):
        nobody = "Nobody judges and nobody is named: zmon hub, or zmon up."
        return [Check("hub", False, str(seen.told), nobody)]
    found = []
    if seen.told.blind:
        found.append(Check("hub", False, f"{seen.hub} reaches no agent", "Give it the agents' URLs with --agents."))
    else:
        found.append(Check("hub", True, f"{seen.hub} watches {counted(len(seen.jobs), 'job')}"))
    if isinstance(seen.health, Unreachable):
        found.append(Check("agents", False, str(seen.health), "Is the hub a zmon of this version?"))
    else:
        found += _health(seen.hub, seen.health) + agents(seen.health.agents) + thresholds.checks(seen.health)
    return found + detectors(seen.detectors)


def _health(hub: str, health: HubHealth) -> list[Check]:
    found = []
    if health.findings_unwritten is not None:
        said = f"findings are not written down ({health.findings_unwritten}): a hub that restarts forgets them"
        found.append(Check("hub state", False, said, "Make room in the hub's --data-dir, or give it another."))
    if health.version not in (None, zmon.__version__):
        said = f"{hub} is zmon {health.version}, and this is {zmon.__version__}"
        found.append(Check("hub version", False, said, "Install one version on hub and nodes, then start them again."))
    return found


def agents(known: Sequence[AgentStatus]) -> list[Check]:
    """One line for all that are well, and one for each thing that is not."""
    answering = [agent for agent in known if agent.reachable]
    found = []
    for agent in known:
        name = f"agent {agent.host or agent.url}"
        if not agent.reachable:
            silent = f"has not answered the hub for {agent.silent_seconds:.0f} s: {agent.error}"
            found.append(Check(name, False, silent, f"On that node: zmon agent running? `curl -s {agent.url}/healthz`"))
        elif agent.version not in (None, zmon.__version__):
            said = f"is zmon {agent.version}, and this is {zmon.__version__}"
            found.append(Check(name, False, said, "Install one version on hub and nodes, then start them again."))
        down = [f"{s.name} ({s.error or 'no reason given'})" for s in agent.sources if not s.up and not s.absent]
        if agent.reachable and down:
            said = f"{counted(len(down), 'source')} down: {'; '.join(down)}"
            found.append(Check(name, False, said, "See that agent's log."))
    if answering:
        versions = sorted({agent.version or "unknown" for agent in answering})
        said = f"{len(answering)} of {len(known)} answer the hub, version {listed(versions)}"
        found.insert(0, Check("agents", True, said))
    return found


def detectors(told: DetectorList | Unreachable) -> list[Check]:
    """Which can speak of every job, and which lacks what it looks at."""
    if isinstance(told, NotServed):
        said = "this hub does not say which of its detectors can speak"
        return [Check("detectors", None, said, "A hub of this version does.")]
    if isinstance(told, Unreachable):
        return [Check("detectors", False, str(told), "See the hub's log.")]
    return [_detector(one) for one in told.detectors]


def _detector(told: DetectorState) -> Check:
    name = f"detector {told.name}"
    if told.failed is not None:
        return Check(name, False, f"fails: {told.failed}", "What it would find is not found: see the hub's log.")
    if not told.jobs:
        return Check(name, None, "no job runs")
    why: dict[str, list[str]] = defaultdict(list)
    for job_id, reason in sorted(told.jobs.items()):
        if reason is not None:
            why[reason].append(job_id)
    if not why:
        return Check(name, True, f"can speak of {counted(len(told.jobs), 'job')}")
    silent = "; ".join(f"{reason} (job {listed(job_ids, 4)})" for reason, job_ids in why.items())
    return Check(name, None, silent, "It finds nothing there.")  # which jobs may well be: one rank, no loss, young
