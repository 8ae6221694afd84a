"""Tests of agents that are pods, followed with an API server on loopback."""

import asyncio
from contextlib import aclosing, asynccontextmanager

import pytest

from tests.hub.discovery.pods import source_of, wait_for_requests
from tests.hub.fakes import poll
from tests.web.kubernetes.fake_api import FakeApi, pod
from zmon.errors import ZmonError
from zmon.hub.discovery import kubernetes

A, B, C = (f"http://10.0.0.{number}:9780" for number in (1, 2, 3))


@pytest.fixture
def start(opened, token_file, monkeypatch):
    """Return a coroutine function that starts an API server with two agents and follows the answers of the source.

    It returns once the first answer has come, unless the server refuses something.
    """
    monkeypatch.setattr(kubernetes, "_RETRY_SECONDS", (0.05, 0.1))
    monkeypatch.setattr(kubernetes, "_SHORTEST_WATCH_SECONDS", 0.05)

    async def start(**refusals):
        api = FakeApi(a=pod("a", "10.0.0.1"), b=pod("b", "10.0.0.2"))
        answers = []
        api.refusals.update(refusals)
        await opened.enter_async_context(api.serve())
        await opened.enter_async_context(following(source_of(api, token_file), answers))
        if not refusals:
            await wait_for_last(answers, (A, B))
        return api, answers

    return start


@asynccontextmanager
async def following(source, answers):
    """Append each answer of the source to `answers`."""

    async def follow():
        async with aclosing(source.follow(None)) as answers_of_source:
            async for answer in answers_of_source:
                answers.append(answer)

    task = asyncio.create_task(follow())
    yield
    assert not task.done(), task
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def wait_for_last(answers, wanted):
    """Wait until the last answer is this one."""
    assert await poll(lambda: bool(answers) and answers[-1] == wanted), answers


def errors_in(answers):
    """Return the errors among the answers of a source."""
    return [answer for answer in answers if isinstance(answer, ZmonError)]


async def wait_for_error(answers, number=1):
    """Wait for this number of errors, and return the text of the last one."""
    assert await poll(lambda: len(errors_in(answers)) >= number), answers
    return str(errors_in(answers)[-1])


async def test_agents_are_those_of_the_list_and_of_each_change(start):
    api, answers = await start()
    api.put(c=pod("c", phase="Pending"))
    api.put(c=pod("c", "10.0.0.3"))
    await wait_for_last(answers, (A, B, C))
    api.put(b=pod("b", "10.0.0.2", deleted=True))
    api.delete("a")
    await wait_for_last(answers, (B, C))
    api.put(b=pod("b", "10.0.0.2", deleted=True, phase="Succeeded"))
    await wait_for_last(answers, (C,))
    assert (len(api.lists), len(api.watches)) == (1, 1)
    assert answers == [(A, B), (A, B, C), (B, C), (C,)]


async def test_changes_that_leave_the_agents_as_they_are_give_no_answer(start):
    api, answers = await start()
    for _ in range(5):
        api.put(a=pod("a", "10.0.0.1"))
        api.bookmark()
    await asyncio.sleep(0.2)
    assert answers == [(A, B)]


async def test_watch_that_the_server_ends_is_resumed_after_the_last_bookmark(start):
    api, answers = await start()
    api.bookmark()
    await asyncio.sleep(0.1)
    api.end_watches()
    await wait_for_requests(api.watches, 2)
    api.put(c=pod("c", "10.0.0.3"))
    await wait_for_last(answers, (A, B, C))
    assert [query["resourceVersion"] for query in api.watches] == ["100", "101"]
    assert len(api.lists) == 1
    assert errors_in(answers) == []


async def test_connection_that_breaks_in_a_line_loses_no_change(start):
    api, answers = await start()
    api.put(c=pod("c", "10.0.0.3"))
    await wait_for_last(answers, (A, B, C))
    await api.cut_watches(b'{"type":"DELETED","object":{"metadata":{"uid":"uid-')
    api.delete("a")
    await wait_for_last(answers, (B, C))
    assert len(api.lists) == 1
    assert errors_in(answers) == []


async def test_forgotten_version_is_a_new_list_without_an_error(start):
    api, answers = await start()
    api.refusals["watch"] = (410, "too old resource version")  # until the pods have been listed again
    api.end_watches()
    await wait_for_requests(api.watches, 2)
    api.objects = {path: {"b": pods["b"]} for path, pods in api.objects.items()}  # no watch reports the deletion
    del api.refusals["watch"]
    await wait_for_last(answers, (B,))
    assert len(api.lists) == 2
    assert errors_in(answers) == []


async def test_error_410_in_a_watch_is_a_new_list_without_an_error(start):
    api, answers = await start()
    api.fail_watches(410, "The resourceVersion for the provided watch is too old.")
    await wait_for_requests(api.lists, 2)
    api.put(c=pod("c", "10.0.0.3"))
    await wait_for_last(answers, (A, B, C))
    assert errors_in(answers) == []


async def test_versions_that_are_often_forgotten_are_no_error_while_watches_begin(start):
    api, answers = await start()
    for number in range(1, 4):
        await wait_for_requests(api.watches, number)
        await asyncio.sleep(0.1)
        api.fail_watches(410, "The resourceVersion for the provided watch is too old.")
        api.forget()
    await wait_for_requests(api.watches, 4)
    assert answers == [(A, B)] * len(answers)


async def test_server_that_always_forgets_is_an_error_with_pauses_between_requests(start):
    api, answers = await start(watch=(410, "too old"))
    assert "too old" in await wait_for_error(answers, 3)
    assert len(api.lists) <= 6


async def test_missing_right_to_watch_is_an_error_with_its_rule(start):
    api, answers = await start(watch=(403, "pods is forbidden"))
    line = await wait_for_error(answers, 2)
    assert "cannot watch pods in the namespace zmon: pods is forbidden (403)" in line
    assert '{apiGroups: [""], resources: [pods], verbs: [list, watch]}' in line
    del api.refusals["watch"]
    await wait_for_last(answers, (A, B))


async def test_selector_that_the_server_refuses_is_an_error(start):
    _api, answers = await start(list=(400, "unable to parse requirement"))
    assert "unable to parse requirement (400). Correct the selector" in await wait_for_error(answers)


async def test_token_that_was_replaced_is_used_after_an_error(start, token_file):
    api, answers = await start()
    api.tokens = {"token-2"}
    api.end_watches()
    assert "(401)" in await wait_for_error(answers)
    token_file.write_text("token-2")
    await wait_for_last(answers, (A, B))


async def test_token_that_cannot_be_read_is_an_error(start, token_file):
    api, answers = await start()
    token_file.unlink()
    api.end_watches()
    assert await wait_for_error(answers) == f"cannot read {token_file}: No such file or directory"
    token_file.write_text("token-1")
    await wait_for_last(answers, (A, B))


async def test_server_that_goes_away_is_an_error_until_it_is_back(start):
    api, answers = await start()
    api.refusals = {"list": (503, "starting"), "watch": (503, "starting")}
    await api.cut_watches()
    assert "starting (503)" in await wait_for_error(answers, 2)
    api.refusals = {}
    await wait_for_last(answers, (A, B))
