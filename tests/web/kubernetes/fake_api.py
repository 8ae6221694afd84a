"""An API server of Kubernetes on loopback: it lists the objects of a test, and tells watches how they change.

It follows https://kubernetes.io/docs/reference/using-api/api-concepts/: every change gets a version, a watch begins
after a version, and versions that the server has forgotten are answered with 410.
"""

import asyncio
import json
from contextlib import asynccontextmanager

from aiohttp import web
from aiohttp.test_utils import TestServer

from zmon.schema.http_config import Authorization, HttpConfig
from zmon.web.kubernetes.api_server import ApiServer

PODS, ALL_PODS = "/api/v1/namespaces/zmon/pods", "/api/v1/pods"


def pod(
    name, ip="", *, namespace="zmon", uid="", labels=None, ports=(), limits=({},), node="", phase="Running",
    host_ip="", host_network=False, deleted=False,
):  # fmt: skip
    """Return a pod as the API server describes it, with some of what zmon does not read.

    `limits`: those of each container.
    """
    metadata = {"name": name, "namespace": namespace, "uid": uid or f"uid-{name}", "labels": labels or {"app": "agent"}}
    if deleted:
        metadata |= {"deletionTimestamp": "2026-11-21T12:00:00Z", "deletionGracePeriodSeconds": 30}
    metadata["managedFields"] = [{"manager": "kubelet", "fieldsV1": {'k:{"type":"Ready"}': {}}}]
    declared = [{"name": port_name, "containerPort": number, "protocol": "TCP"} for port_name, number in ports]
    containers = [
        {"name": f"agent-{number}", "image": "zmon", "resources": {"limits": limit, "requests": limit} if limit else {}}
        for number, limit in enumerate(limits)
    ]
    spec = {"containers": [container | ({"ports": declared} if declared else {}) for container in containers]}
    spec |= {"nodeName": node} if node else {}
    if host_network:
        spec["hostNetwork"] = True
    status = {"phase": phase, "conditions": []}
    status |= ({"podIP": ip, "podIPs": [{"ip": ip}]} if ip else {}) | ({"hostIP": host_ip} if host_ip else {})
    return {"metadata": metadata, "spec": spec, "status": status}


def status(code, message):
    """Return the body of a refusal."""
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "code": code}


class FakeApi:
    """The objects of a cluster by path of their list, and what the server has been asked."""

    def __init__(self, **objects):
        """`objects`: the pods of the namespace zmon by name."""
        self.objects = {PODS: objects}
        self.version = 100
        self.forgotten = 0  # changes up to this version are forgotten
        self.page = 500  # objects of a page at most
        self.tokens = {"token-1"}
        self.refusals = {}  # code and message for each request of a verb, or of a verb and a path
        self.delay_seconds = 0.0  # before each answer
        self.piece = 0  # watches write pieces of this many bytes; 0: whole events
        self.lists, self.watches = [], []  # the queries of requests
        self.authorizations = []
        self._changes = []  # version, path, event
        self._closings = 0
        self._responses = []

    @asynccontextmanager
    async def serve(self, tls=None):
        """Serve on loopback."""
        app = web.Application()
        app.router.add_get("/{path:.*}", self._answer)
        server = TestServer(app)
        await server.start_server(ssl=tls)
        try:
            self.url, self.port = str(server.make_url("")).rstrip("/"), server.port
            yield self
        finally:
            self.end_watches()
            await server.close()

    def account(self, token_file):
        """Return the server with the token in a file."""
        return ApiServer(self.url, HttpConfig(authorization=Authorization(credentials_file=token_file)))

    def put(self, path=PODS, **objects):
        """Add or replace objects by name."""
        for name, value in objects.items():
            known = self.objects.setdefault(path, {})
            kind = "MODIFIED" if name in known else "ADDED"
            known[name] = value
            self._change(path, kind, value)

    def delete(self, name, path=PODS):
        self._change(path, "DELETED", self.objects[path].pop(name))

    def bookmark(self):
        """Tell all watches that nothing else has changed so far."""
        self._change(None, "BOOKMARK", {"kind": "Pod", "metadata": {}})

    def fail_watches(self, code, message):
        """Send an error to all watches."""
        self._changes.append((self.version, None, {"type": "ERROR", "object": status(code, message)}))

    def forget(self):
        """Forget the changes so far, as after a compaction of etcd."""
        self.version += 1
        self.forgotten = self.version

    def end_watches(self):
        """End all watches in order, as after their timeoutSeconds."""
        self._closings += 1

    async def cut_watches(self, text=b""):
        """Send a part of a line to all watches, and break their connections."""
        for request, response in self._responses:
            if text:
                await response.write(text)
                await asyncio.sleep(0.05)
            if request.transport is not None:
                request.transport.abort()

    def _change(self, path, kind, value):
        self.version += 1
        value["metadata"]["resourceVersion"] = str(self.version)
        self._changes.append((self.version, path, {"type": kind, "object": json.loads(json.dumps(value))}))

    async def _answer(self, request):
        verb = "watch" if "watch" in request.query else "list"
        self.authorizations.append(request.headers.get("Authorization"))
        (self.watches if verb == "watch" else self.lists).append(dict(request.query))
        await asyncio.sleep(self.delay_seconds)
        token = (request.headers.get("Authorization") or "").removeprefix("Bearer ")
        refusal = self.refusals.get((verb, request.path)) or self.refusals.get(verb)
        if token not in self.tokens:
            refusal = (401, "Unauthorized")
        elif request.path not in self.objects:
            refusal = refusal or (404, "the server could not find the requested resource")
        elif verb == "watch" and int(request.query["resourceVersion"]) < self.forgotten:
            refusal = (410, f"too old resource version: {request.query['resourceVersion']} ({self.forgotten})")
        if refusal is not None:
            return web.json_response(status(*refusal), status=refusal[0])
        return await (self._watch(request) if verb == "watch" else self._list(request))

    async def _list(self, request):
        begin = int(request.query.get("continue", "0"))
        values = list(self.objects[request.path].values())
        field, _, wanted = request.query.get("fieldSelector", "").partition("=")
        if field:  # the API server selects pods by few fields
            assert field == "spec.nodeName"
            values = [value for value in values if value["spec"].get("nodeName", "") == wanted]
        end = begin + min(self.page, int(request.query["limit"]))
        metadata = {"resourceVersion": str(self.version)} | ({"continue": str(end)} if end < len(values) else {})
        return web.json_response({"kind": "List", "metadata": metadata, "items": values[begin:end] or None})

    async def _watch(self, request):
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        self._responses.append((request, response))
        closings, since = self._closings, int(request.query["resourceVersion"])
        position = next((i for i, change in enumerate(self._changes) if change[0] > since), len(self._changes))
        while self._closings == closings and request.transport is not None:
            for version, path, event in self._changes[position:]:
                if path in (None, request.path) and version >= since:
                    await self._write(response, json.dumps(event).encode() + b"\n")
            position = len(self._changes)
            await asyncio.sleep(0.01)
        return response

    async def _write(self, response, data):
        size = self.piece or len(data)
        for begin in range(0, len(data), size):
            await response.write(data[begin : begin + size])
            await asyncio.sleep(0)
