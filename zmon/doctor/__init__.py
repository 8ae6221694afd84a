"""Checks that every part that should watch the jobs works: sources, detectors, rules and routes of pages.

A part is armed if its check shows that it works, and inert if it does not work. It is absent if there is nothing to
watch, or if its state is not known.
The checks try the real thing: they allocate a box in the box directory, read the existing boxes, and follow a page from
the rule to its receiver. Each part has a file; `kubernetes/` is for `zmon doctor --kubernetes`.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from zmon.box.roots import own_root
from zmon.doctor import cluster, kubernetes, node, paging, prometheus, rules
from zmon.doctor.check import Check
from zmon.doctor.installation import installed_distributions, installed_torch, package, probe_edge, torch_version
from zmon.doctor.paging import Login
from zmon.errors import UsageError
from zmon.schema.http_config import ClientConfig
from zmon.web import http_client
from zmon.web.kubernetes.agent_pods import PodSelection
from zmon.web.kubernetes.api_server import ApiServer

__all__ = ["Check", "Login", "examine", "examine_cluster", "examine_kubernetes"]


async def examine(
    box_dir: Path | None,
    agent: str,
    hub: str,
    prometheus_url: str,
    login: Login | None = None,
    http: ClientConfig | None = None,
) -> list[Check]:
    """Run every check, in the order in which parts depend on each other.

    `agent`, `hub` and `prometheus_url`: the base URLs of the agent, the hub and Prometheus. `login`: for an
    Alertmanager that asks for a password. `box_dir`: the directory of boxes; None: that of this user. `http`: the
    passwords, tokens and certificates with which servers are asked.
    """
    box_dir = box_dir or own_root(os.environ)
    http = http or ClientConfig()
    async with http_client.session(http.agents) as session:
        agent_checks, cluster_checks = await asyncio.gather(
            node.sources(session, agent, box_dir), examine_cluster(hub, prometheus_url, login, http)
        )
    python_checks = [package(installed_distributions()), torch_version(installed_torch()), probe_edge()]
    node_checks = [*node.shared_directory(), node.space_for_boxes(box_dir), *node.boxes(box_dir)]
    return [*python_checks, *node_checks, *agent_checks, *cluster_checks]


async def examine_kubernetes(
    server: ApiServer, agents: PodSelection | None, hub: str, prometheus_url: str, http: ClientConfig | None = None
) -> list[Check]:
    """Run the checks that a pod of a Kubernetes cluster can run: those of any machine, and those of zmon's objects.

    `agents`: the pods of the agents; None: it is unknown which pods they are.
    """
    cluster_checks, kubernetes_checks = await asyncio.gather(
        examine_cluster(hub, prometheus_url, None, http), kubernetes.checks_of(server, agents)
    )
    return [*kubernetes_checks, *cluster_checks]


async def examine_cluster(
    hub: str, prometheus_url: str, login: Login | None = None, http: ClientConfig | None = None
) -> list[Check]:
    """Run the checks that any machine can run: hub, Prometheus, rules and routes of pages."""
    http = http or ClientConfig()
    try:
        async with http_client.session(http.hub) as to_hub, http_client.session(http.prometheus) as to_prometheus:
            view, state = await asyncio.gather(cluster.ask(to_hub, hub), prometheus.ask(to_prometheus, prometheus_url))
    except UsageError as error:  # a certificate or key that cannot be read now
        reason = str(error).removesuffix(f". {error.next_step}")
        return [Check("hub and Prometheus", False, f"cannot be asked: {reason}", error.next_step)]
    checks = cluster.checks(view)
    if isinstance(state, Check):
        return [*checks, state]
    checks += [*prometheus.checks(state, view.hosts), *rules.checks(rules.shipped(), state)]
    checks += rules.alert_labels(view.alert_labels, state)
    if not state.alertmanagers:
        return [*checks, paging.NO_ALERTMANAGER]
    answers = await asyncio.gather(*(_ask_alertmanager(url, login) for url in state.alertmanagers))
    for answer in answers:
        checks += [answer] if isinstance(answer, Check) else paging.checks(answer, view.jobs, state.up_seconds)
    return checks


async def _ask_alertmanager(url: str, login: Login | None) -> paging.AlertmanagerState | Check:
    """Return the state of an Alertmanager. It has its own session, so that no other Alertmanager gets its password."""
    async with http_client.session(headers=login.headers(url) if login else None) as session:
        return await paging.ask(session, url)
