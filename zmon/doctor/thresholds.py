"""Shows the thresholds that this site has changed: thresholds of the hub's detectors, and leases of the agents."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from zmon.doctor.check import Check
from zmon.format import counted, listed
from zmon.schema.api import HubHealth
from zmon.schema.job_snapshot import AgentStatus
from zmon.schema.thresholds import Threshold


def checks(health: HubHealth) -> list[Check]:
    """Return one check for each changed threshold of a detector, then for each changed lease."""
    return [*_detectors(health.thresholds), *leases(health.agents)]


def _detectors(changed: Sequence[Threshold] | None) -> list[Check]:
    """Return one check for each changed threshold of the detectors. `changed`: None if the hub does not report them."""
    if changed is None:
        next_step = "Update the hub: a hub of this version reports them."
        return [Check("thresholds", None, "this hub does not report its thresholds", next_step)]
    if not changed:
        return [Check("thresholds", True, "the hub uses the defaults")]
    return [Check("threshold", True, f"{threshold.name} is {_value(threshold)}") for threshold in changed]


def leases(agents: Sequence[AgentStatus]) -> list[Check]:
    """Return one check for each lease that an agent has changed; it lists the agents if their values differ."""
    reporting = [agent for agent in agents if agent.leases is not None]
    not_reporting = [agent.host or agent.url for agent in agents if agent.leases is None and agent.version is not None]
    names = sorted({lease.name for agent in reporting for lease in agent.leases or ()})
    checks = [_lease(name, reporting) for name in names]
    if reporting and not names:
        checks.append(Check("leases", True, f"the defaults on {counted(len(reporting), 'agent')}"))
    if not_reporting:
        next_step = "Update these agents: agents of this version report them."
        checks.append(Check("leases", None, f"not reported by {listed(not_reporting)}", next_step))
    return checks


def _lease(name: str, agents: Sequence[AgentStatus]) -> Check:
    """Return the check of one lease over all agents that report their leases."""
    hosts_by_value = defaultdict[str, list[str]](list)
    for agent in agents:
        lease = next((lease for lease in agent.leases or () if lease.name == name), None)
        hosts_by_value["the default" if lease is None else _value(lease)].append(agent.host or agent.url)
    if len(hosts_by_value) == 1:
        return Check("lease", True, f"{name} is {next(iter(hosts_by_value))}, on {counted(len(agents), 'agent')}")
    differ = "; ".join(f"{value} on {listed(sorted(hosts), 4)}" for value, hosts in sorted(hosts_by_value.items()))
    next_step = (
        "Set the same `agent: {leases: …}` for all agents of a job: it is stalled once all its ranks are overdue."
    )
    return Check("lease", None, f"{name} differs: {differ}", next_step)


def _value(threshold: Threshold) -> str:
    return f"{threshold.value:g} (default {threshold.default:g})"
