"""Checks what is silently without effect in a Kubernetes cluster, with the rights of the pod that doctor runs in.

| file | what it does |
|---|---|
| `reading.py` | asks the API server for objects |
| `objects.py` | the objects, as far as they are read |
| `selection.py` | which objects a Prometheus of the operator selects |
| `monitoring.py` | checks monitors, rules and scrape intervals |
| `agents.py` | checks pods, DaemonSets and Pod Security of agents |

What may not be read is reported as unknown, with the missing right.
"""

from __future__ import annotations

from zmon.doctor.check import Check, unreadable
from zmon.doctor.kubernetes import agents, monitoring
from zmon.doctor.kubernetes.reading import ask
from zmon.errors import Forbidden, Unreachable, UsageError
from zmon.web.kubernetes.agent_pods import PodSelection
from zmon.web.kubernetes.api_server import ApiServer

__all__ = ["checks_of"]


async def checks_of(server: ApiServer, selection: PodSelection | None) -> list[Check]:
    """Ask the API server, and return the checks. `selection`: the pods of the agents, if that is known."""
    try:
        async with server.session() as session:
            objects = await ask(session, server.url, selection)
    except UsageError as error:  # the authority of the service account is broken
        return [Check("Kubernetes", False, str(error))]
    no_answer = objects.namespaces  # which every cluster has, so any error but a missing right concerns all requests
    if isinstance(no_answer, Unreachable) and not isinstance(no_answer, Forbidden):
        return [unreadable("Kubernetes", no_answer)]
    return [*agents.checks(objects), *monitoring.checks(objects)]
