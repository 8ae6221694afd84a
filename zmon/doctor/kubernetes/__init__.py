"""Checks for objects of a Kubernetes cluster that silently have no effect, with the rights of doctor's own pod.

Objects that the pod may not read are reported as unknown, with the missing right.
"""

from __future__ import annotations

import asyncio
from typing import TypeVar

import aiohttp

from zmon.doctor.check import Check, unreadable
from zmon.doctor.kubernetes import agents, monitoring, objects
from zmon.errors import Forbidden, Unreachable, UsageError
from zmon.web.kubernetes.agent_pods import Pod, PodSelection
from zmon.web.kubernetes.api_server import ApiServer
from zmon.web.kubernetes.requests import Resource, list_objects

__all__ = ["checks_of"]

T = TypeVar("T")


async def checks_of(server: ApiServer, selection: PodSelection | None) -> list[Check]:
    """Ask the API server, and return the checks. `selection`: the pods of the agents, if that is known."""
    try:
        async with server.session() as session:
            answers = await ask(session, server.url, selection)
    except UsageError as error:  # the authority of the service account is broken
        return [Check("Kubernetes", False, str(error))]
    namespaces = answers.namespaces  # every cluster has them, so any error but a missing right concerns all requests
    if isinstance(namespaces, Unreachable) and not isinstance(namespaces, Forbidden):
        return [unreadable("Kubernetes", namespaces)]
    return [*agents.checks(answers), *monitoring.checks(answers)]


async def ask(session: aiohttp.ClientSession, server: str, pods: PodSelection | None) -> objects.ClusterObjects:
    """Return the answers to all requests. `pods`: those of the agents, if it is known which they are."""

    async def objects_of(resource: Resource, kind: type[T], selector: str = "") -> tuple[T, ...] | Unreachable:
        try:
            return (await list_objects(session, server, resource, kind, selector)).objects
        except Unreachable as error:
            return error

    async def agent_objects(resource: Resource, kind: type[T]) -> tuple[T, ...] | Unreachable:
        return await objects_of(resource.in_namespace(pods.namespace), kind, pods.selector) if pods else ()

    return objects.ClusterObjects(
        pods,
        *await asyncio.gather(
            agent_objects(objects.PODS, Pod),
            agent_objects(objects.DAEMON_SETS, objects.DaemonSet),
            objects_of(objects.NAMESPACES, objects.Namespace),
            objects_of(objects.PROMETHEUSES, objects.PrometheusObject),
        ),
        *await asyncio.gather(
            objects_of(objects.POD_MONITORS, objects.Monitor),
            objects_of(objects.SERVICE_MONITORS, objects.Monitor),
            objects_of(objects.RULES, objects.PrometheusRule),
        ),
    )
