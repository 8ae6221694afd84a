"""A resource of the Kubernetes API: its path, and the rule of RBAC that allows to read it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from urllib.parse import quote


@dataclass(frozen=True)
class Resource:
    """All objects of one kind, in one namespace or in the whole cluster."""

    name: str  # as in a path and in RBAC: pods
    group: str = ""  # "": the core group
    version: str = "v1"
    namespace: str = ""  # "": the whole cluster
    verbs: tuple[str, ...] = ("list",)  # those that zmon needs

    def of(self, namespace: str) -> Resource:
        """Return the objects in one namespace."""
        return replace(self, namespace=namespace)

    @property
    def path(self) -> str:
        """The path of the API."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        namespace = f"/namespaces/{quote(self.namespace, safe='')}" if self.namespace else ""
        return f"{root}{namespace}/{self.name}"

    @property
    def place(self) -> str:
        """The objects in a message: pods in the namespace zmon."""
        return f"{self.name} in the namespace {self.namespace}" if self.namespace else f"{self.name} of the cluster"

    @property
    def next_step(self) -> str:
        """The step that gives the right to read the objects, with the rule of RBAC."""
        role = f"a Role in the namespace {self.namespace}" if self.namespace else "a ClusterRole"
        rule = f'{{apiGroups: ["{self.group}"], resources: [{self.name}], verbs: [{", ".join(self.verbs)}]}}'
        return f"Give the service account {role} with the rule {rule}"
