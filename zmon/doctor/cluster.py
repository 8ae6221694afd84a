"""Checks the hub: which agents answer it, which sources are down, and which jobs each detector can judge."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import aiohttp

import zmon
from zmon.doctor import acts, thresholds
from zmon.doctor.check import TIMEOUT_SECONDS, Check
from zmon.errors import NotServed, Unreachable
from zmon.format import counted, listed
from zmon.schema import api
from zmon.schema.api import endpoints
from zmon.schema.job_snapshot import AgentStatus
from zmon.web import client

T = TypeVar("T")
_FREE_SPACE = "Free some space in the hub's --data-dir, or start the hub with another one."
_ONE_VERSION = "Install one version on the hub and all nodes, then restart them."


@dataclass(frozen=True)
class ClusterView:
    """The answers of the hub. If the hub does not answer a request, the error is in place of the answer."""

    hub: str
    health: api.HubHealth | Unreachable
    job_list: api.JobList | Unreachable
    detectors: api.DetectorList | Unreachable

    @property
    def jobs(self) -> list[str]:
        """The IDs of the jobs that the hub watches; empty if it did not answer.

        A job that a fault ended, and that no agent reports any more, is not among them.
        """
        jobs = [] if isinstance(self.job_list, Unreachable) else self.job_list.jobs
        return [job.job_id for job in jobs if job.ranks_seen or not job.ended]

    @property
    def hosts(self) -> list[str]:
        """The hosts of the agents that have answered the hub; empty if the hub did not answer."""
        agents = [] if isinstance(self.health, Unreachable) else self.health.agents
        return sorted({agent.host for agent in agents if agent.host})

    @property
    def alert_labels(self) -> Sequence[str] | None:
        """The labels of jobs that the hub puts on alerts; None: not reported."""
        return None if isinstance(self.health, Unreachable) else self.health.alert_labels


async def ask(session: aiohttp.ClientSession, hub: str) -> ClusterView:
    """Send all requests to the hub at once, and return the answers."""

    async def answer_or_error(request: Awaitable[T]) -> T | Unreachable:
        try:
            return await request
        except Unreachable as error:
            return error

    return ClusterView(
        hub,
        *await asyncio.gather(
            answer_or_error(
                client.ask(session, hub, endpoints.HUB_HEALTH, api.HubHealthRequest(), TIMEOUT_SECONDS, accepted=(503,))
            ),
            answer_or_error(client.ask(session, hub, endpoints.JOBS, api.JobsRequest(), TIMEOUT_SECONDS)),
            answer_or_error(client.ask(session, hub, endpoints.DETECTORS, api.DetectorsRequest(), TIMEOUT_SECONDS)),
        ),
    )


def checks(view: ClusterView) -> list[Check]:
    """Return the checks of the hub, then of its agents, then of its detectors."""
    if isinstance(view.job_list, Unreachable):
        return [Check("hub", False, str(view.job_list), "No detector runs without a hub. Start zmon hub, or zmon up.")]
    if view.job_list.blind:
        hub = Check("hub", False, f"{view.hub} reaches no agent", "Start the hub with the agents' URLs in --agents.")
    else:
        hub = Check("hub", True, f"{view.hub} watches {counted(len(view.jobs), 'job')}")
    if isinstance(view.health, Unreachable):
        health = [Check("agents", False, str(view.health), "Check that the hub runs this version of zmon.")]
    else:
        health = _health(view.hub, view.health) + agents(view.health.agents) + thresholds.checks(view.health)
        health += acts.checks(view.health)
    return [hub, *health, *detectors(view.detectors)]


def _health(hub: str, health: api.HubHealth) -> list[Check]:
    """Return an inert check for each problem that the hub reports about itself."""
    checks = []
    if health.findings_unwritten is not None:
        result = f"cannot write findings to disk ({health.findings_unwritten}); a restart would lose them"
        checks.append(Check("hub state", False, result, _FREE_SPACE))
    if health.incidents_unwritten is not None:
        result = f"an incident is not on disk as it is now ({health.incidents_unwritten})"
        next_step = f"See the hub's log. {_FREE_SPACE} This check is armed again once the hub has written an incident."
        checks.append(Check("hub state, incidents", False, result, next_step))
    for what, reason in (health.unwritten or {}).items():
        result = f"cannot write {what} to disk ({reason}); a restart would lose them"
        checks.append(Check(f"hub state, {what}", False, result, _FREE_SPACE))
    for part, error in (health.failed or {}).items():
        checks.append(Check(f"hub, {part}", False, f"fails: {error}", "See the hub's log."))
    for source, reason in (health.discovery or {}).items():
        result = f"agents may be missing; the hub keeps those that it has from there: {reason}"
        checks.append(Check(f"agents of {source}", False, result, "Repair it. The hub asks it again by itself."))
    for recipient, reason in (health.unsent or {}).items():
        result = f"a notice is not sent yet, and is tried again: {reason}"
        checks.append(Check(f"notices to {recipient}", False, result, "Try it with zmon notify FILE --test."))
    if health.version not in (None, zmon.__version__):
        result = f"{hub} runs zmon {health.version}, but this is zmon {zmon.__version__}"
        checks.append(Check("hub version", False, result, _ONE_VERSION))
    return checks


def agents(statuses: Sequence[AgentStatus]) -> list[Check]:
    """Return one check for all agents that answer, and one for each problem of an agent."""
    problems = [check for agent in statuses for check in _problems(agent)]
    answering = [agent for agent in statuses if agent.reachable]
    if not answering:
        return problems
    versions = sorted({agent.version or "unknown" for agent in answering})
    result = f"{len(answering)} of {len(statuses)} answer the hub, version {listed(versions)}"
    return [Check("agents", True, result), *problems]


def _problems(agent: AgentStatus) -> list[Check]:
    """Return an inert check for each problem of an agent."""
    name = f"agent {agent.host or agent.url}"
    if not agent.reachable:
        result = f"has not answered the hub for {agent.silent_seconds:.0f} s: {agent.error}"
        return [Check(name, False, result, f"On that node, check that zmon agent runs: `curl -s {agent.url}/healthz`")]
    checks = []
    if agent.version not in (None, zmon.__version__):
        result = f"runs zmon {agent.version}, but this is zmon {zmon.__version__}"
        checks.append(Check(name, False, result, _ONE_VERSION))
    if agent.num_left_out:
        result = f"sends what the hub cannot decode ({counted(agent.num_left_out, 'part')} of its last report): "
        checks.append(Check(name, False, result + "; ".join(agent.left_out), _ONE_VERSION))
    down = [source for source in agent.sources if not source.up and not source.absent]
    if down:
        reasons = "; ".join(f"{source.name} ({source.error or 'no reason given'})" for source in down)
        result = f"has {counted(len(down), 'source')} down: {reasons}"
        checks.append(Check(name, False, result, "See that agent's log."))
    return checks


def detectors(answer: api.DetectorList | Unreachable) -> list[Check]:
    """Return one check per detector, with the reason for each job that it cannot judge."""
    if isinstance(answer, NotServed):
        result = "this hub does not report which jobs its detectors can judge"
        return [Check("detectors", None, result, "Update the hub: a hub of this version reports it.")]
    if isinstance(answer, Unreachable):
        return [Check("detectors", False, str(answer), "See the hub's log.")]
    return [_detector(state) for state in answer.detectors]


def _detector(state: api.DetectorState) -> Check:
    """Check that a detector works, and list the jobs that it cannot judge."""
    name = f"detector {state.name}"
    if state.failed is not None:
        return Check(name, False, f"fails: {state.failed}", "It reports no findings. See the hub's log.")
    if not state.jobs:
        return Check(name, None, "no job runs")
    jobs_by_reason: dict[str, list[str]] = defaultdict(list)
    for job_id, reason in sorted(state.jobs.items()):
        if reason is not None:
            jobs_by_reason[reason].append(job_id)
    if not jobs_by_reason:
        return Check(name, True, f"can judge {counted(len(state.jobs), 'job')}")
    result = "; ".join(f"{reason} (job {listed(job_ids, 4)})" for reason, job_ids in jobs_by_reason.items())
    # Not inert: often it is normal, as for a job with one rank, without a loss, or without steps so far.
    return Check(name, None, result, "It reports nothing there.")
