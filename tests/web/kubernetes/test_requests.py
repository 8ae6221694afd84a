"""Tests of lists and watches against an API server on loopback."""

import asyncio
from contextlib import asynccontextmanager

import msgspec
import pytest

from tests.web.kubernetes.fake_api import PODS, FakeApi, pod
from zmon.errors import Forbidden, Gone, NotServed, Unreachable
from zmon.web.kubernetes import requests
from zmon.web.kubernetes.requests import ObjectMeta, Resource, list_objects, watching

RESOURCE = Resource("pods", namespace="zmon", verbs=("list", "watch"))


class Spec(msgspec.Struct):
    """The part of a pod that the tests decode."""

    containers: list[msgspec.Raw]


class Pod(msgspec.Struct):
    """A pod."""

    metadata: ObjectMeta
    spec: Spec


@pytest.fixture
def running(tmp_path):
    """Return a context with an API server that has two pods, changed by its arguments, and a session with its token."""
    token_file = tmp_path / "token"
    token_file.write_text("token-1\n")

    @asynccontextmanager
    async def running(**attributes):
        api = FakeApi(a=pod("a", "10.0.0.1"), b=pod("b", "10.0.0.2"))
        for name, value in attributes.items():
            setattr(api, name, value)
        async with api.serve(), api.account(token_file).session() as session, asyncio.timeout(20):
            yield api, session

    return running


async def names_and_version(api, session):
    """List the pods; return their names and the version of the list."""
    listing = await list_objects(session, api.url, RESOURCE, Pod, "app=agent")
    return [listed.metadata.name for listed in listing.objects], listing.version


@asynccontextmanager
async def changes_of(api, session, version="100"):
    """Watch, and yield a coroutine function that returns the next change as (type, name, version)."""
    async with watching(session, api.url, RESOURCE, Pod, "app=agent", version) as changes:

        async def following():
            change = await anext(changes)
            return change.type, change.object and change.object.metadata.name, change.version

        yield following


async def test_list_has_all_pages_and_a_version(running):
    async with running(page=1) as (api, session):
        assert await names_and_version(api, session) == (["a", "b"], "100")
        assert api.lists == [
            {"labelSelector": "app=agent", "limit": "250"},
            {"labelSelector": "app=agent", "limit": "250", "continue": "1"},
        ]


async def test_list_by_a_field_from_memory_has_the_objects_of_one_node(running):
    async with running(page=1) as (api, session):
        api.objects = {PODS: {name: pod(name, node=node) for name, node in (("a", "n1"), ("b", "n2"), ("c", "n1"))}}
        listing = await list_objects(session, api.url, RESOURCE, Pod, fields="spec.nodeName=n1", version="0")
        assert [listed.metadata.name for listed in listing.objects] == ["a", "c"]
        first = {"fieldSelector": "spec.nodeName=n1", "limit": "250"}
        assert api.lists == [first | {"resourceVersion": "0"}, first | {"continue": "1"}]


def test_name_of_a_namespace_cannot_lead_to_another_path():
    assert RESOURCE.in_namespace("../nodes").path == "/api/v1/namespaces/..%2Fnodes/pods"


async def test_list_without_objects_is_empty(running):
    async with running(objects={PODS: {}}) as (api, session):
        assert await names_and_version(api, session) == ([], "100")


async def test_watch_has_the_changes_since_its_version_and_bookmarks(running):
    async with running() as (api, session):
        api.put(c=pod("c", "10.0.0.3"))
        async with changes_of(api, session, "100") as following:
            assert await following() == ("ADDED", "c", "101")
            api.put(c=pod("c", "10.0.0.4"))
            assert await following() == ("MODIFIED", "c", "102")
            api.bookmark()
            assert await following() == ("BOOKMARK", None, "103")
            api.delete("c")
            assert await following() == ("DELETED", "c", "104")
        (query,) = api.watches
        assert query == {
            "labelSelector": "app=agent", "resourceVersion": "100", "watch": "1", "allowWatchBookmarks": "true",
            "timeoutSeconds": "60",
        }  # fmt: skip


async def test_pieces_of_a_line_are_put_together(running):
    async with running(piece=7) as (api, session), changes_of(api, session) as following:
        api.put(c=pod("c", "10.0.0.3"), d=pod("d", "10.0.0.4"))
        assert [await following() for _ in range(2)] == [("ADDED", "c", "101"), ("ADDED", "d", "102")]


async def test_changes_end_when_the_server_ends_the_watch(running):
    async with running() as (api, session), changes_of(api, session) as following:
        api.end_watches()
        with pytest.raises(StopAsyncIteration):
            await following()


async def test_line_that_a_broken_connection_cut_comes_again(running):
    async with running() as (api, session):
        async with changes_of(api, session) as following:
            api.put(c=pod("c", "10.0.0.3"))
            assert await following() == ("ADDED", "c", "101")
            await api.cut_watches(b'{"type":"ADDED","object":{"metadata":{"name":"d')
            with pytest.raises(StopAsyncIteration):
                await following()
        api.put(d=pod("d", "10.0.0.4"))
        async with changes_of(api, session, "101") as following:
            assert await following() == ("ADDED", "d", "102")


async def test_version_that_the_server_has_forgotten_is_gone(running):
    async with running() as (api, session):
        api.forget()
        with pytest.raises(Gone, match=r"too old resource version: 100 \(101\) \(410\)"):
            async with changes_of(api, session, "100"):
                pass


async def test_only_error_410_in_a_watch_is_gone(running):
    async with running() as (api, session):
        for code, kind in ((410, Gone), (500, Unreachable)):
            async with changes_of(api, session, str(api.version)) as following:
                api.fail_watches(code, "a reason")
                with pytest.raises(kind, match=rf"cannot watch pods in the namespace zmon: a reason \({code}\)"):
                    await following()
            api.bookmark()


@pytest.mark.parametrize(
    ("refusal", "kind", "parts"),
    [
        ((400, "unable to parse"), Unreachable, ("unable to parse (400). Correct the selector",)),
        (
            (403, 'pods is forbidden: User "system:serviceaccount:zmon:hub" cannot list resource "pods"'),
            Forbidden,
            (
                "cannot list pods in the namespace zmon: pods is forbidden: User ",
                "a Role in the namespace zmon with the rule",
                '{apiGroups: [""], resources: [pods], verbs: [list, watch]}',
            ),
        ),
        ((404, "page not found"), NotServed, ("page not found (404)",)),
        ((410, "The provided continue parameter is too old"), Gone, ("continue parameter",)),
        ((429, "too\nmany"), Unreachable, ("too many (429)",)),
        ((503, ""), Unreachable, ("no reason given (503)",)),
        ((500, "x" * 1000), Unreachable, ("x" * 300 + " (500)",)),
    ],
    ids=lambda value: str(value[0]) if isinstance(value, tuple) and isinstance(value[0], int) else "",
)  # fmt: skip
async def test_refusal_says_what_is_missing(running, refusal, kind, parts):
    async with running(refusals={"list": refusal}) as (api, session):
        with pytest.raises(Unreachable) as refused:
            await names_and_version(api, session)
        assert type(refused.value) is kind
        for part in parts:
            assert part in str(refused.value)


async def test_token_that_is_not_accepted_is_an_error(running):
    async with running(tokens={"token-2"}) as (api, session):
        with pytest.raises(Unreachable, match=r"Unauthorized \(401\). The API server does not accept the token"):
            await names_and_version(api, session)


async def test_error_about_an_object_does_not_repeat_its_text(running):
    async with running(objects={PODS: {"a": pod("a") | {"spec": {"containers": "secret"}}}}) as (api, session):
        with pytest.raises(Unreachable, match=r"cannot understand the answer of .*/pods: Expected `array`") as refused:
            await names_and_version(api, session)
        assert "secret" not in str(refused.value)


async def test_line_without_end_is_refused(running, monkeypatch):
    monkeypatch.setattr(requests, "_MAX_LINE_BYTES", 1 << 20)

    async with running() as (api, session), changes_of(api, session) as following:
        api.put(c=pod("c", labels={"app": "x" * (3 << 20)}))
        with pytest.raises(Unreachable, match="a line of more than 1 MiB"):
            await following()


async def test_server_that_refuses_connections_is_unreachable(running):
    async with running() as (api, session):
        api.url = "http://127.0.0.1:1"
        with pytest.raises(Unreachable, match="Connection refused"):
            await names_and_version(api, session)
        with pytest.raises(Unreachable, match="Connection refused"):
            async with changes_of(api, session):
                pass
