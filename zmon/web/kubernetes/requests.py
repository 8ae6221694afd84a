"""List objects, and watch how they change.

Source: https://kubernetes.io/docs/reference/using-api/api-concepts/ (efficient detection of changes). A list has a
version. A watch from this version on has every later change, until the API server closes it. Then it is resumed from
the version of the last change or bookmark. Once the API server has forgotten a version (410 Gone), the objects must be
listed again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from typing import Generic, Literal, TypeVar
from urllib.parse import quote

import aiohttp
import msgspec

from zmon.errors import Forbidden, Gone, NotServed, Unreachable
from zmon.schema.api.endpoint import MAX_ANSWER_BYTES
from zmon.schema.api.received import Undecodable, decode
from zmon.web.client import HEADERS, read, unreachable

T = TypeVar("T")
ANSWER_SECONDS = 10.0  # time limit of a list, and of the first byte of a watch
WATCH_SECONDS = 60  # the API server closes a watch after this time, so a connection that is dead is noticed soon
_LATE_SECONDS = 10.0  # a watch may be closed this long after its end
_PAGE_OBJECTS = 250  # in one answer to a list; a pod has 5 to 20 KB
_MAX_REFUSAL_BYTES = 1 << 16
_MAX_LINE_BYTES = 4 << 20  # an object has 1.5 MiB at most, the limit of etcd
_PART_BYTES = 1 << 16
_MAX_MESSAGE_LETTERS = 300  # of the API server's own message
_CERTIFICATES = "Check ca.crt of the service account and the certificate of the API server"


@dataclass(frozen=True)
class Resource:
    """All objects of one kind, in one namespace or in the whole cluster."""

    name: str  # as in a path and in RBAC: pods
    group: str = ""  # "": the core group
    namespace: str = ""  # "": the whole cluster
    verbs: tuple[str, ...] = ("list",)  # those that zmon needs

    def in_namespace(self, namespace: str) -> Resource:
        """Return the objects of one namespace only."""
        return replace(self, namespace=namespace)

    @property
    def path(self) -> str:
        root = f"/apis/{self.group}/v1" if self.group else "/api/v1"
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


class ObjectMeta(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of an object's metadata that zmon reads."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    generation: int = 0
    labels: dict[str, str] = {}


@dataclass(frozen=True)
class ObjectList(Generic[T]):
    """All objects, and the version from which on a watch has what changed since."""

    objects: tuple[T, ...]
    version: str


@dataclass(frozen=True)
class ObjectChange(Generic[T]):
    """A change of one object. A bookmark has no object: it says that nothing else has changed until its version."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
    version: str
    object: T | None


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str
    continue_: str = msgspec.field(name="continue", default="")


class _List(msgspec.Struct, frozen=True):
    metadata: _Meta
    items: list[msgspec.Raw] | None = None  # Go writes null for an empty list


class _Versioned(msgspec.Struct, frozen=True):
    metadata: _Meta


class _Event(msgspec.Struct, frozen=True):
    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
    object: msgspec.Raw


class _Status(msgspec.Struct, frozen=True):
    code: int = 0
    message: str = ""


async def list_objects(
    session: aiohttp.ClientSession,
    server: str,
    resource: Resource,
    object_type: type[T],
    selector: str = "",
    fields: str = "",
    version: str = "",
) -> ObjectList[T]:
    """Return all objects whose labels and fields match. Raises Forbidden, NotServed, Gone or Unreachable.

    `version` "0": those that the API server has in memory, which may be some seconds old. For the newest ones (""), it
    reads all objects from etcd, and compares fields afterwards.
    """
    url = server + resource.path
    objects: list[T] = []
    query = _query(labelSelector=selector, fieldSelector=fields, resourceVersion=version, limit=str(_PAGE_OBJECTS))
    while True:
        with unreachable(url, ANSWER_SECONDS):
            async with asyncio.timeout(ANSWER_SECONDS), await _open(session, server, resource, "list", query) as answer:
                body = await read(answer, url, MAX_ANSWER_BYTES)
        page = _decoded(body, _List, url)
        objects += [_decoded(item, object_type, url) for item in page.items or ()]
        if not page.metadata.continue_:
            return ObjectList(tuple(objects), page.metadata.resource_version)
        query["continue"] = page.metadata.continue_
        query.pop("resourceVersion", None)  # the page that follows is of the version of this one


@contextlib.asynccontextmanager
async def watching(
    session: aiohttp.ClientSession, server: str, resource: Resource, object_type: type[T], selector: str, version: str
) -> AsyncIterator[AsyncIterator[ObjectChange[T]]]:
    """Watch objects whose labels match from a version on, and yield the changes once the API server has agreed.

    The changes end when the API server closes the watch, or when the connection breaks; both are normal. Raises
    Forbidden, NotServed, Gone or Unreachable, also while the changes are read.
    """
    query = _query(
        labelSelector=selector,
        resourceVersion=version,
        watch="1",
        allowWatchBookmarks="true",
        timeoutSeconds=str(WATCH_SECONDS),
    )
    async with await _open(session, server, resource, "watch", query) as answer:
        yield _changes(answer, resource, object_type, server + resource.path)


async def _open(
    session: aiohttp.ClientSession, server: str, resource: Resource, verb: str, query: Mapping[str, str]
) -> aiohttp.ClientResponse:
    """Send a request and return the response, of which only the head has been read, if its status is 200."""
    url = server + resource.path
    limit = aiohttp.ClientTimeout(total=WATCH_SECONDS + _LATE_SECONDS)
    with unreachable(url, ANSWER_SECONDS, _CERTIFICATES):
        async with asyncio.timeout(ANSWER_SECONDS):
            response = await session.get(
                url, params=query, timeout=limit, headers=HEADERS, allow_redirects=False, auto_decompress=False
            )
            if response.status == 200:
                return response
            async with response:
                body = await read(response, url, _MAX_REFUSAL_BYTES)
    message = ""
    with contextlib.suppress(Undecodable):
        message = decode(body, _Status).message
    raise _refused(resource, verb, response.status, message)


def _refused(resource: Resource, verb: str, status: int, message: str) -> Unreachable:
    """Return the error of a status. The message is by the API server, whose certificate has been verified."""
    what = f"cannot {verb} {resource.place}"
    cause = f"{message[:_MAX_MESSAGE_LETTERS] or 'no reason given'} ({status})"
    if status == 400:
        return Unreachable(what, cause, "Correct the selector")
    if status == 401:
        return Unreachable(what, cause, "The API server does not accept the token; it is read again for each request")
    if status == 403:
        return Forbidden(what, cause, resource.next_step)
    error_class = {404: NotServed, 410: Gone}.get(status, Unreachable)
    return error_class(what, cause)


async def _changes(
    response: aiohttp.ClientResponse, resource: Resource, object_type: type[T], url: str
) -> AsyncIterator[ObjectChange[T]]:
    async for line in _lines(response.content, url):
        event = _decoded(line, _Event, url)
        if event.type == "ERROR":
            status = _decoded(event.object, _Status, url)
            raise _refused(resource, "watch", status.code, status.message)
        version = _decoded(event.object, _Versioned, url).metadata.resource_version
        changed = None if event.type == "BOOKMARK" else _decoded(event.object, object_type, url)
        yield ObjectChange(event.type, version, changed)


async def _lines(content: aiohttp.StreamReader, url: str) -> AsyncIterator[bytes]:
    """Yield each whole line. A line that the end of the connection cut is dropped: a resumed watch has it again."""
    rest = b""
    with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError):
        async for part in content.iter_chunked(_PART_BYTES):
            *lines, rest = (rest + part).split(b"\n")
            if len(rest) > _MAX_LINE_BYTES:
                raise Unreachable(f"{url} sent a line of more than {_MAX_LINE_BYTES >> 20} MiB")
            for line in lines:
                yield line


def _query(**parameters: str) -> dict[str, str]:
    return {name: value for name, value in parameters.items() if value}


def _decoded(body: bytes | msgspec.Raw, wanted: type[T], url: str) -> T:
    try:
        return decode(bytes(body), wanted)
    except Undecodable as error:
        raise Unreachable(f"cannot understand the answer of {url}", str(error)) from error
