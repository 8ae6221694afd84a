"""The agents among the pods of a namespace: which pods, and the URL of each. Pure.

Source: https://kubernetes.io/docs/reference/generated/kubernetes-api/ (Pod v1).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from zmon.web.addresses import AGENT_PORT, host_in_url
from zmon.web.kubernetes.requests import ObjectMeta

_PORT_NAMES = ("zmon-agent", "http")  # names of a container port, in order of preference
_ENDED = ("Succeeded", "Failed")
_SELECTION = re.compile(
    r"(?P<namespace>[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?)/(?P<selector>[\w\-./=!,() ]*\w[\w\-./=!,() ]*)"
    r"(?::(?P<port>\d{1,5}))?",
    re.ASCII,
)


@dataclass(frozen=True)
class PodSelection:
    """The pods that are agents, and their port."""

    text: str  # as in `--agents`
    namespace: str
    selector: str  # of labels, as kubectl has it
    port: int | None = None  # None: the port that each pod declares


class ContainerPort(msgspec.Struct, frozen=True, rename="camel"):
    container_port: int
    name: str = ""


class Resources(msgspec.Struct, frozen=True):
    limits: dict[str, str] = {}  # nvidia.com/gpu → "8"


class Container(msgspec.Struct, frozen=True):
    ports: tuple[ContainerPort, ...] = ()
    resources: Resources = Resources()


class PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The part of a pod that its owner decides."""

    containers: tuple[Container, ...] = ()
    host_network: bool = False


class PodStatus(msgspec.Struct, frozen=True):
    """The part of a pod that the cluster reports."""

    phase: str = ""
    pod_ip: str = msgspec.field(name="podIP", default="")
    host_ip: str = msgspec.field(name="hostIP", default="")


class Pod(msgspec.Struct, frozen=True):
    """A pod. This and the structs above have only the fields that zmon reads."""

    metadata: ObjectMeta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def has_ended(self) -> bool:
        """True once none of its containers runs or will run. A pod that is being deleted has not ended."""
        return self.status.phase in _ENDED


def pod_selection(text: str) -> PodSelection | None:
    """Return what `NAMESPACE/SELECTOR` or `NAMESPACE/SELECTOR:PORT` selects; None if it is neither."""
    match = _SELECTION.fullmatch(text)
    if match is None:
        return None
    return PodSelection(text, match["namespace"], match["selector"], int(match["port"]) if match["port"] else None)


def agent_url(pod: Pod, scheme: str, port: int | None) -> str | None:
    """Return the URL of the agent in a pod; None if the pod has ended or has no address yet.

    A pod that is being deleted counts until it has ended: its agent watches the ranks of the node until then.
    """
    address = pod.status.pod_ip or (pod.status.host_ip if pod.spec.host_network else "")
    if not address or pod.has_ended:
        return None
    return f"{scheme}://{host_in_url(address)}:{port or _declared_port(pod.spec.containers) or AGENT_PORT}"


def _declared_port(containers: Sequence[Container]) -> int | None:
    """Return the port that a pod declares for its agent."""
    ports = {port.name: port.container_port for container in containers for port in container.ports}
    return next((ports[name] for name in _PORT_NAMES if name in ports), None)
