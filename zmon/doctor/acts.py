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
    answered = [agent for agent in health.agents if agent.version is not None]
    hosts = defaultdict[str | None, list[str]](list)  # by the reason why acts are refused; "": allowed, None: unknown
    for agent in answered:
        hosts[agent.refuses_acts].append(agent.host or agent.url)
    unknown = hosts.pop(None, [])
    allowing = hosts.pop("", [])
    rules = f"enforced: {listed(health.enforced, 4)}"
    if hosts:
        refusals = [f"{listed(sorted(names), 4)} ({reason})" for reason, names in sorted(hosts.items(), key=str)]
        return [Check("acts", False, f"{rules}; refused by {listed(refusals, 4)}", _ALLOW)]
    if unknown:
        result = f"{rules}; not reported whether allowed by {listed(sorted(unknown), 4)}"
        return [Check("acts", None, result, "Update these agents: agents of this version report it.")]
    return [Check("acts", True, f"{rules}; allowed by {counted(len(allowing), 'agent')}")] if allowing else []
