"""Checks that agents allow the acts that rules of the hub enforce (`zmon hub --act`)."""

from __future__ import annotations

from collections import defaultdict

from zmon.doctor.check import Check
from zmon.format import counted, listed
from zmon.schema.api import HubHealth

_ALLOW = (
    "Nothing is done on these hosts. Start their agents with --allow-actions (ZMON_ALLOW_ACTIONS=1), and if they have "
    "users, give that of the hub the role actions; or take `mode: enforce` out of the rule (docs/act.md)."
)


def checks(health: HubHealth) -> list[Check]:
    """Return a check if a rule is enforced. It leaves out agents that have never answered the hub."""
    if not health.enforced:
        return []
    hosts_by_refusal = defaultdict[str | None, list[str]](list)  # "": acts are allowed, None: the agent does not say
    for agent in health.agents:
        if agent.version is not None:
            hosts_by_refusal[agent.refuses_acts].append(agent.host or agent.url)
    unknown = hosts_by_refusal.pop(None, [])
    allowing = hosts_by_refusal.pop("", [])
    rules = f"enforced: {listed(health.enforced, 4)}"
    if hosts_by_refusal:
        by_reason = sorted(hosts_by_refusal.items(), key=str)
        refusals = [f"{listed(sorted(hosts), 4)} ({reason})" for reason, hosts in by_reason]
        return [Check("acts", False, f"{rules}; refused by {listed(refusals, 4)}", _ALLOW)]
    if unknown:
        result = f"{rules}; not reported whether allowed by {listed(sorted(unknown), 4)}"
        return [Check("acts", None, result, "Update these agents: agents of this version report it.")]
    return [Check("acts", True, f"{rules}; allowed by {counted(len(allowing), 'agent')}")] if allowing else []
