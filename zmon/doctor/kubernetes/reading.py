"""Asks the API server for the objects that doctor checks."""

from __future__ import annotations

import asyncio
from typing import TypeVar

import aiohttp

from zmon.doctor.kubernetes import objects
from zmon.doctor.kubernetes.objects import (
    ClusterObjects,
    DaemonSet,
    Monitor,
    Namespace,
    PrometheusObject,
    PrometheusRule,
)
from zmon.errors import Unreachable
from zmon.web.kubernetes.agent_pods import Pod, PodSelection
from zmon.web.kubernetes.requests import list_objects
from zmon.web.kubernetes.resource import Resource

T = TypeVar("T")


async def ask(session: aiohttp.ClientSession, server: str, agents: PodSelection | None) -> ClusterObjects:
    """Send all requests at once, and return the answers. `agents`: where their pods are, if that is known."""

    async def objects_of(resource: Resource, kind: type[T], selector: str = "") -> tuple[T, ...] | Unreachable:
        try:
            return (await list_objects(session, server, resource, kind, selector)).objects
        except Unreachable as error:
            return error

    async def of_agents(resource: Resource, kind: type[T]) -> tuple[T, ...] | Unreachable:
        return await objects_of(resource.of(agents.namespace), kind, agents.selector) if agents else ()

    return ClusterObjects(
        agents,
        *await asyncio.gather(
            of_agents(objects.PODS, Pod),
            of_agents(objects.DAEMON_SETS, DaemonSet),
            objects_of(objects.NAMESPACES, Namespace),
            objects_of(objects.PROMETHEUSES, PrometheusObject),
        ),
        *await asyncio.gather(
            objects_of(objects.POD_MONITORS, Monitor),
            objects_of(objects.SERVICE_MONITORS, Monitor),
            objects_of(objects.RULES, PrometheusRule),
        ),
    )
