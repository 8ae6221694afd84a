"""Tests of agents that are pods: followed with an API server on loopback, and through a hub."""

import asyncio
from contextlib import aclosing, asynccontextmanager
from urllib.parse import urlsplit

import pytest

from tests.build import waiting
from tests.hub.discovery.test_agents import agents_of, job_of
from tests.hub.fakes import FakeAgent, contexts, hub_over, poll, two_agents
from tests.web.kubernetes.fake_api import FakeApi, pod
from zmon.errors import ZmonError
from zmon.hub.discovery import kubernetes
from zmon.hub.discovery.kubernetes import KubernetesTargets
from zmon.schema.http_config import Authorization, HttpConfig
from zmon.web.kubernetes.agent_pods import pod_selection

A, B, C = (f"http://10.0.0.{number}:9780" for number in (1, 2, 3))


@pytest.fixture
def token_file(tmp_path):
    path = tmp_path / "token"
    path.write_text("token-1")
    return path


@pytest.fixture
def run(token_file, monkeypatch):
    """Run a scenario with an API server that has two agents, and the answers of the source so far."""
    monkeypatch.setattr(kubernetes, "_RETRY_SECONDS", (0.05, 0.1))
    monkeypatch.setattr(kubernetes, "_SHORTEST_WATCH_SECONDS", 0.05)

    def run(scenario, **fake):
        async def main():
            api, answers = FakeApi(a=pod("a", "10.0.0.1"), b=pod("b", "10.0.0.2")), []
            for name, value in fake.items():
                setattr(api, name, value)
            async with api.serve(), following(source_of(api, token_file), answers):
                await asyncio.wait_for(scenario(api, answers), 20)

        asyncio.run(main())

    return run


def source_of(api, token_file, selection="zmon/app=agent"):
    return KubernetesTargets(pod_selection(selection), "http", api.account(token_file))


@asynccontextmanager
async def following(source, answers):
    async def follow():
        async with aclosing(source.follow(None)) as every:
            async for answer in every:
                answers.append(answer)

    task = asyncio.create_task(follow())
    yield
    assert not task.done(), task
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def last(answers, wanted):
    """Wait until the last answer is this one."""

    async def is_last():
        return bool(answers) and answers[-1] == wanted

    assert await poll(is_last), answers


async def error(answers, number=1):
    """Wait for this number of errors, and return the text of the last one."""

    async def errors():
        all_errors = [answer for answer in answers if isinstance(answer, ZmonError)]
        return all_errors if len(all_errors) >= number else None

    return str((await poll(errors))[-1])


async def count(requests, number):
    async def reached():
        return len(requests) >= number

    assert await poll(reached), requests


def test_agents_are_those_of_the_list_and_of_each_change(run):
    async def scenario(api, answers):
        await last(answers, (A, B))
        api.put(c=pod("c", phase="Pending"))
        api.put(c=pod("c", "10.0.0.3"))
        await last(answers, (A, B, C))
        api.put(b=pod("b", "10.0.0.2", deleted=True))
        api.delete("a")
        await last(answers, (B, C))
        api.put(b=pod("b", "10.0.0.2", deleted=True, phase="Succeeded"))
        await last(answers, (C,))
        assert (len(api.lists), len(api.watches)) == (1, 1)
        assert answers == [(A, B), (A, B, C), (B, C), (C,)]

    run(scenario)


def test_changes_without_another_agent_are_quiet(run):
    async def scenario(api, answers):
        await last(answers, (A, B))
        for _ in range(5):
            api.put(a=pod("a", "10.0.0.1"))
            api.bookmark()
        await asyncio.sleep(0.2)
        assert answers == [(A, B)]

    run(scenario)


def test_watch_that_the_server_ends_is_resumed_after_the_last_bookmark(run):
    async def scenario(api, answers):
        await last(answers, (A, B))
        api.bookmark()
        await asyncio.sleep(0.1)
        api.end_watches()
        await count(api.watches, 2)
        api.put(c=pod("c", "10.0.0.3"))
        await last(answers, (A, B, C))
        assert [query["resourceVersion"] for query in api.watches] == ["100", "101"]
        assert len(api.lists) == 1
        assert not [answer for answer in answers if isinstance(answer, ZmonError)]

    run(scenario)


def test_connection_that_breaks_in_a_line_is_resumed_and_nothing_is_lost(run):
    async def scenario(api, answers):
        await last(answers, (A, B))
        api.put(c=pod("c", "10.0.0.3"))
        await last(answers, (A, B, C))
        await api.cut_watches(b'{"type":"DELETED","object":{"metadata":{"uid":"uid-')
        api.delete("a")
        await last(answers, (B, C))
        assert len(api.lists) == 1
        assert not [answer for answer in answers if isinstance(answer, ZmonError)]

    run(scenario)


def test_forgotten_version_means_a_new_list_and_no_error(run):
    async def scenario(api, answers):
        await last(answers, (A, B))
        api.refusals["watch"] = (410, "too old resource version")  # until the pods have been listed again
        api.end_watches()
        await count(api.watches, 2)
        api.objects = {path: {"b": pods["b"]} for path, pods in api.objects.items()}  # the deletion is never told
        del api.refusals["watch"]
        await last(answers, (B,))
        assert len(api.lists) == 2
        assert not [answer for answer in answers if isinstance(answer, ZmonError)]

    run(scenario)


def test_error_410_in_a_watch_means_a_new_list_and_no_error(run):
    async def scenario(api, answers):
        await last(answers, (A, B))
        api.fail_watches(410, "The resourceVersion for the provided watch is too old.")
        await count(api.lists, 2)
        api.put(c=pod("c", "10.0.0.3"))
        await last(answers, (A, B, C))
        assert not [answer for answer in answers if isinstance(answer, ZmonError)]

    run(scenario)


def test_versions_forgotten_again_and_again_are_no_error_while_watches_begin(run):
    async def scenario(api, answers):
        for number in range(1, 4):
            await count(api.watches, number)
            await asyncio.sleep(0.1)
            api.fail_watches(410, "The resourceVersion for the provided watch is too old.")
            api.forget()
        await count(api.watches, 4)
        assert answers == [(A, B)] * len(answers)

    run(scenario)


def test_server_that_always_forgets_is_told_and_not_asked_all_the_time(run):
    async def scenario(api, answers):
        assert "too old" in await error(answers, 3)
        assert len(api.lists) <= 6

    run(scenario, refusals={"watch": (410, "too old")})


def test_right_to_watch_that_is_missing_is_told_with_its_rule(run):
    async def scenario(api, answers):
        line = await error(answers, 2)
        assert "cannot watch pods in the namespace zmon: pods is forbidden (403)" in line
        assert '{apiGroups: [""], resources: [pods], verbs: [list, watch]}' in line
        del api.refusals["watch"]
        await last(answers, (A, B))

    run(scenario, refusals={"watch": (403, "pods is forbidden")})


def test_selector_that_the_server_refuses_is_told(run):
    async def scenario(api, answers):
        assert "unable to parse requirement (400). Correct the selector" in await error(answers)

    run(scenario, refusals={"list": (400, "unable to parse requirement")})


def test_token_that_was_replaced_is_used_after_an_error(run, token_file):
    async def scenario(api, answers):
        await last(answers, (A, B))
        api.tokens = {"token-2"}
        api.end_watches()
        assert "(401)" in await error(answers)
        token_file.write_text("token-2")
        await last(answers, (A, B))

    run(scenario)


def test_token_that_cannot_be_read_is_told(run, token_file):
    async def scenario(api, answers):
        await last(answers, (A, B))
        token_file.unlink()
        api.end_watches()
        assert await error(answers) == f"cannot read {token_file}: No such file or directory"
        token_file.write_text("token-1")
        await last(answers, (A, B))

    run(scenario)


def test_server_that_goes_away_is_an_error_and_is_asked_again(run):
    async def scenario(api, answers):
        await last(answers, (A, B))
        api.refusals = {"list": (503, "starting"), "watch": (503, "starting")}
        await api.cut_watches()
        assert "starting (503)" in await error(answers, 2)
        api.refusals = {}
        await last(answers, (A, B))

    run(scenario)


# -- through a hub -----------------------------------------------------------------------------------------


def agent_pod(name, agent):
    """Return a pod in which this agent runs."""
    parts = urlsplit(agent.url)
    return pod(name, parts.hostname, ports=(("http", parts.port),))


@pytest.fixture
def run_hub(tmp_path, token_file, monkeypatch):
    """Run a scenario with a hub whose agents are pods; at first there is the first one."""
    monkeypatch.setattr(kubernetes, "_RETRY_SECONDS", (0.05, 0.1))

    def run(scenario):
        async def main():
            agents, api = two_agents(), FakeApi()
            async with contexts(agents), api.serve():
                api.put(a=agent_pod("a", agents[0]))
                sources = (source_of(api, token_file),)
                async with hub_over(tmp_path / "data", sources=sources) as hub_client:
                    await asyncio.wait_for(scenario(api, hub_client, *agents), 20)

        asyncio.run(main())

    return run


async def watched(hub_client, number):
    async def reports():
        job = await job_of(hub_client)
        return job is not None and job["ranks_seen"] == number

    assert await poll(reports), await job_of(hub_client)


def test_agent_whose_pod_comes_is_asked(run_hub):
    async def scenario(api, hub_client, node_a, node_b):
        await watched(hub_client, 2)
        api.put(b=agent_pod("b", node_b))
        await watched(hub_client, 4)

    run_hub(scenario)


def test_ranks_of_a_pod_that_goes_are_unwatched_and_not_gone(run_hub):
    async def scenario(api, hub_client, node_a, node_b):
        api.put(b=agent_pod("b", node_b))
        await watched(hub_client, 4)
        api.delete("b")
        await watched(hub_client, 2)
        status = (await agents_of(hub_client))[node_b.url]
        assert (status["reachable"], status["error"]) == (False, "it is no longer a target")
        node_a.ranks = [waiting(rank, 20.0) for rank in (0, 1)]  # as if they waited for the ranks of node-b
        await hub_client.passes()
        causes = {finding["cause"] for finding in await hub_client.findings()}
        assert not causes & {"host_lost", "rank_exited"}, causes
        api.put(b=agent_pod("b", node_b))
        await watched(hub_client, 4)

    run_hub(scenario)


def test_api_server_and_agents_do_not_see_the_credentials_for_each_other(tmp_path, token_file):
    async def main():
        agent, api, shown = FakeAgent(), FakeApi(), set()

        def check(request):
            shown.add(request.headers.get("Authorization"))
            agent.requests.append(request.path_qs)

        agent.check = check
        async with agent.serve(), api.serve():
            api.put(a=agent_pod("a", agent))
            http = HttpConfig(authorization=Authorization(credentials="of-the-hub"))
            async with hub_over(tmp_path / "data", sources=(source_of(api, token_file),), http=http):
                await count(agent.requests, 2)
        assert shown == {"Bearer of-the-hub"}
        assert set(api.authorizations) == {"Bearer token-1"}

    asyncio.run(main())


def test_hub_keeps_the_agents_while_the_api_server_does_not_answer_and_says_so(run_hub):
    async def scenario(api, hub_client, node_a, node_b):
        await watched(hub_client, 2)
        api.refusals = {"list": (503, "starting"), "watch": (503, "starting")}
        api.end_watches()

        async def errors():
            return (await hub_client.get("/healthz"))["discovery"]

        assert "starting (503)" in (await poll(errors))["kubernetes:zmon/app=agent"]
        await hub_client.passes()
        await watched(hub_client, 2)
        api.refusals = {}
        api.put(b=agent_pod("b", node_b))
        await watched(hub_client, 4)
        assert await errors() == {}

    run_hub(scenario)
