"""List the pods of this node that hold GPUs, as the API server of Kubernetes knows them. Off unless it is switched on.

A pod holds the number of GPUs that the limits of its containers name, from the moment it is bound to the node until it
has ended. Only the kubelet knows which GPUs these are. Instances of GPUs (MIG) have no utilization, so it is unknown
whether a pod leaves them idle, and they are not counted as GPUs.

Source: https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/, and for MIG the resources of NVIDIA's device
plugin.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterator, Sequence

from zmon.agent.sources.holders import Holder
from zmon.agent.sources.reading import Reading
from zmon.errors import UsageError, ZmonError
from zmon.format import plain
from zmon.web.kubernetes.agent_pods import Pod
from zmon.web.kubernetes.api_server import ApiServer
from zmon.web.kubernetes.requests import ANSWER_SECONDS, Resource, list_objects

LONGEST_PAUSE_SECONDS = 320.0  # between two requests while the API server refuses them or does not answer
GPUS, INSTANCES = "nvidia.com/gpu", "nvidia.com/mig-"
_NODE = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_COUNT = re.compile(r"\d{1,3}", re.ASCII)


class PodSource:
    """The pods of one node that hold GPUs."""

    name = "pods"
    interval_seconds = 20.0
    timeout_seconds = ANSWER_SECONDS + 5.0

    def __init__(self, server: ApiServer, node: str, clock: Callable[[], float] = time.monotonic) -> None:
        """`node`: the name of the node in Kubernetes. Raises UsageError if no node can have this name."""
        if not _NODE.fullmatch(node):
            next_step = "Set --pods-of-node to spec.nodeName of the agent's pod"
            raise UsageError(f"{node} is no name of a node", "", next_step)
        self._server, self._node, self._clock = server, node, clock
        self._error: ZmonError | None = None  # of the last request
        self._next_request_at = clock()
        self._pause_seconds = self.interval_seconds

    def read(self) -> Reading:
        """Return a holder for each pod. After an error, ask less and less often, and raise the error in between."""
        if self._error is not None and self._clock() < self._next_request_at:
            raise self._error
        try:
            pods = asyncio.run(self._list())
        except ZmonError as error:
            self._error = error
            self._pause_seconds = min(2 * self._pause_seconds, LONGEST_PAUSE_SECONDS)
            self._next_request_at = self._clock() + self._pause_seconds
            raise
        self._error, self._pause_seconds = None, self.interval_seconds
        dropped: list[str] = []
        return Reading(tuple(pod_holders(pods, dropped)), tuple(dropped))

    async def _list(self) -> Sequence[Pod]:
        """Return all pods of the node. Raises Forbidden or Unreachable."""
        fields = f"spec.nodeName={self._node}"
        async with self._server.session() as session:
            pods = await list_objects(session, self._server.url, Resource("pods"), Pod, fields=fields, version="0")
        return pods.objects


def pod_holders(pods: Sequence[Pod], dropped: list[str]) -> Iterator[Holder]:
    """Yield the pods that hold GPUs; `dropped` gets a line for each pod whose number of GPUs is unknown."""
    for pod in pods:
        limits = [limit for container in pod.spec.containers for limit in container.resources.limits.items()]
        counts = [count for resource, count in limits if resource == GPUS]
        name = plain(f"{pod.metadata.namespace}/{pod.metadata.name}")
        if pod.has_ended:
            continue
        if any(resource.startswith(INSTANCES) for resource, _ in limits):
            dropped.append(f"{name}: it is unknown whether its instances of GPUs are idle")
        elif not all(map(_COUNT.fullmatch, counts)):
            dropped.append(f"{name}: its limit of {GPUS} is no number of GPUs")
        elif number := sum(map(int, counts)):
            # The ends of its control group with the drivers cgroupfs and systemd.
            uid = pod.metadata.uid
            groups = f"/pod{uid}", f"-pod{uid.replace('-', '_')}.slice"
            yield Holder(name, number, groups=groups)
