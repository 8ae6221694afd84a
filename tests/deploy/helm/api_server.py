"""An API server of Kubernetes for Helm: it knows kinds, says that nothing exists, and records what is created."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Collection, Coroutine, Iterator
from typing import Any

import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer

# group/version → kind → whether its objects have a namespace
CORE = {
    "v1": {"Namespace": False, "Secret": True, "ConfigMap": True, "Service": True, "ServiceAccount": True},
    "apps/v1": {"DaemonSet": True, "StatefulSet": True, "Deployment": True},
    "policy/v1": {"PodDisruptionBudget": True},
    "rbac.authorization.k8s.io/v1": {
        "Role": True,
        "RoleBinding": True,
        "ClusterRole": False,
        "ClusterRoleBinding": False,
    },
    "networking.k8s.io/v1": {"NetworkPolicy": True},
}
OPTIONAL = {
    "cert-manager.io/v1": {"Certificate": True},
    "monitoring.coreos.com/v1": {"PodMonitor": True, "ServiceMonitor": True, "PrometheusRule": True},
    "jobset.x-k8s.io/v1alpha2": {"JobSet": True},
}
EVERYTHING = tuple(OPTIONAL)


def plural(kind: str) -> str:
    """Return the name of the resources of a kind."""
    return f"{kind.lower()[:-1]}ies" if kind.endswith("y") else f"{kind.lower()}s"


class ApiServer:
    """The server: its address, and the objects that a client created."""

    def __init__(self, optional: Collection[str]) -> None:
        self.groups = {**CORE, **{name: OPTIONAL[name] for name in optional}}
        self.created: list[dict[str, object]] = []
        self.url = ""

    @property
    def kubeconfig(self) -> str:
        """The configuration of a client, as YAML."""
        return yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "here", "cluster": {"server": self.url}}],
                "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
                "users": [{"name": "me", "user": {}}],
                "current-context": "here",
            }
        )

    async def answer(self, request: web.Request) -> web.Response:
        """Answer one request."""
        path = request.path.strip("/")
        if path == "version":
            return web.json_response({"major": "1", "minor": "31", "gitVersion": "v1.31.0"})
        if path == "api":
            return web.json_response({"kind": "APIVersions", "versions": ["v1"]})
        if path == "apis":
            return web.json_response({"kind": "APIGroupList", "apiVersion": "v1", "groups": self._groups()})
        name = path.partition("/")[2]
        if name in self.groups:
            return web.json_response(self._resources(name))
        if request.method == "POST" and request.content_type == "application/json":
            thing = await request.json()
            self.created.append(thing)
            return web.json_response(thing, status=201)
        if request.method == "GET" and path.endswith("/secrets"):
            return web.json_response({"kind": "SecretList", "apiVersion": "v1", "metadata": {}, "items": []})
        if request.method in ("POST", "PUT", "PATCH"):  # Helm's own record of the release, as protobuf
            status = 201 if request.method == "POST" else 200
            return web.Response(body=await request.read(), content_type=request.content_type, status=status)
        failure = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}
        return web.json_response(failure, status=404)

    def _groups(self) -> list[dict[str, object]]:
        groups = []
        for name in self.groups:
            group, _, version = name.partition("/")
            if version:
                this = {"groupVersion": name, "version": version}
                groups.append({"name": group, "versions": [this], "preferredVersion": this})
        return groups

    def _resources(self, name: str) -> dict[str, object]:
        verbs = ["create", "delete", "get", "list", "patch", "update", "watch"]
        resources = [
            {"name": plural(kind), "singularName": kind.lower(), "namespaced": namespaced, "kind": kind, "verbs": verbs}
            for kind, namespaced in self.groups[name].items()
        ]
        return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": resources}


@contextlib.contextmanager
def api_server(optional: Collection[str] = EVERYTHING) -> Iterator[ApiServer]:
    """Run a server in a thread of its own. `optional`: the API groups of operators that are installed."""
    server, loop = ApiServer(optional), asyncio.new_event_loop()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.answer)
    http = TestServer(app)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def run(coroutine: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, loop).result(20)

    try:
        run(http.start_server())
        server.url = str(http.make_url("")).rstrip("/")
        yield server
    finally:
        run(http.close())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
