"""Targets in Kubernetes: pods of one namespace, listed once and then watched."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing

import aiohttp

from zmon.errors import Gone, ZmonError
from zmon.hub.discovery.target import Answer, in_order
from zmon.web.kubernetes.agent_pods import Pod, PodSelection, agent_url
from zmon.web.kubernetes.api_server import ApiServer
from zmon.web.kubernetes.requests import ObjectChange, Resource, list_objects, watching

_RETRY_SECONDS = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0)  # time to the next attempt, by the number of failures before
_SHORTEST_WATCH_SECONDS = 1.0  # an API server that closes each watch at once must not keep the hub busy


class KubernetesTargets:
    """The agents among the pods of a namespace."""

    def __init__(self, pods: PodSelection, scheme: str, server: ApiServer) -> None:
        self.name = f"kubernetes:{pods.text}"
        self._pods = pods
        self._scheme = scheme
        self._server = server
        self._resource = Resource("pods", namespace=pods.namespace, verbs=("list", "watch"))

    async def follow(self, session: aiohttp.ClientSession) -> AsyncGenerator[Answer, None]:
        """Yield the agents whenever they have changed. After an error the pods are listed again.

        The hub's session is not used: the API server must not see the credentials for agents.
        """
        failures = 0
        while True:
            try:
                async with self._server.session() as api, aclosing(self._watch_from_list(api)) as answers:
                    async for urls in answers:
                        yield urls
                        failures = 0
            except ZmonError as error:
                # The API server forgets old versions. After a lost connection this is normal, so it is no error.
                is_expired_version = isinstance(error, Gone)
                if failures or not is_expired_version:
                    yield error
                await asyncio.sleep(_RETRY_SECONDS[min(failures, len(_RETRY_SECONDS) - 1)])
                failures += 1

    async def _watch_from_list(self, session: aiohttp.ClientSession) -> AsyncGenerator[tuple[str, ...], None]:
        """List the pods, and yield the agents once the watch has begun and whenever they change. Raises ZmonError."""
        url, pods = self._server.url, self._pods
        listing = await list_objects(session, url, self._resource, Pod, pods.selector)
        version = listing.version
        agents = {pod.metadata.uid: self._url(pod) for pod in listing.objects}
        while True:
            begin = time.monotonic()
            async with watching(session, url, self._resource, Pod, pods.selector, version) as changes:
                yield _urls(agents)
                async for change in changes:
                    version = change.version
                    if self._apply(change, agents):
                        yield _urls(agents)
            await asyncio.sleep(max(0.0, begin + _SHORTEST_WATCH_SECONDS - time.monotonic()))

    def _apply(self, change: ObjectChange[Pod], agents: dict[str, str | None]) -> bool:
        """Apply a change of a pod to `agents` (uid of a pod → URL). Return True if a URL has changed."""
        if change.object is None:
            return False
        uid = change.object.metadata.uid
        before = agents.pop(uid, None)
        if change.type != "DELETED":
            agents[uid] = self._url(change.object)
        return agents.get(uid) != before

    def _url(self, pod: Pod) -> str | None:
        return agent_url(pod, self._scheme, self._pods.port)


def _urls(agents: dict[str, str | None]) -> tuple[str, ...]:
    return in_order([url for url in agents.values() if url])
