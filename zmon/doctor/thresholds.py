"""The thresholds that this site changed: what the hub judges by, and the leases of the agents, where they differ."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from zmon.doctor.check import Check
from zmon.format import counted, listed
from zmon.schema.agent import AgentStatus
from zmon.schema.api import HubHealth
from zmon.schema.thresholds import Threshold

_SAME = "Give the agents of one job the same `agent: {leases: …}`: a job is stalled once all its ranks are overdue."


def checks(health: HubHealth) -> list[Check]:
    """The detectors' thresholds, then the leases."""
    return [*_detectors(health.thresholds), *leases(health.agents)]


def _detectors(changed: Sequence[Threshold] | None) -> list[Check]:
    if changed is None:
        return [Check("thresholds", None, "this hub does not tell its thresholds", "A hub of this version does.")]
    if not changed:
        return [Check("thresholds", True, "the hub judges by the defaults")]
    return [Check("threshold", True, f"{one.name} is {_set(one)}") for one in changed]


def leases(agents: Sequence[AgentStatus]) -> list[Check]:
    """One line for each lease that some agent has changed; which agents have which, where they differ."""
    telling = [agent for agent in agents if agent.leases is not None]
    silent = [agent.host or agent.url for agent in agents if agent.leases is None and agent.version is not None]
    names = sorted({one.name for agent in telling for one in agent.leases or ()})
    found = [_lease(name, telling) for name in names]
    if telling and not names:
        found.append(Check("leases", True, f"the defaults on {counted(len(telling), 'agent')}"))
    if silent:
        found.append(Check("leases", None, f"not told by {listed(silent)}", "Agents of this version tell them."))
    return found


def _lease(name: str, agents: Sequence[AgentStatus]) -> Check:
    hosts = defaultdict[str, list[str]](list)
    for agent in agents:
        lease = next((one for one in agent.leases or () if one.name == name), None)
        hosts["the default" if lease is None else _set(lease)].append(agent.host or agent.url)
    if len(hosts) == 1:
        return Check("lease", True, f"{name} is {next(iter(hosts))}, on {counted(len(agents), 'agent')}")
    differ = "; ".join(f"{value} on {listed(sorted(names), 4)}" for value, names in sorted(hosts.items()))
    return Check("lease", None, f"{name} differs: {differ}", _SAME)


def _set(threshold: Threshold) -> str:
    return f"{threshold.value:g} (default {threshold.default:g})"
