"""Fixtures: a hub over HTTP that asks the fake agents of a test, a journal, and recorded baselines."""

import pytest

from tests.hub.fakes import FakeAgent, contexts, hub_over
from zmon.hub import accounts
from zmon.hub.baseline_store import FOLDER, BaselineStore
from zmon.hub.journal import Journal


@pytest.fixture
def start_hub(opened, tmp_path, monkeypatch):
    """Return a coroutine function that starts these agents and a hub that asks them; both end after the test.

    The counters of the hub show each pass.
    """
    monkeypatch.setattr(accounts, "SAVE_SECONDS", 0.0)

    async def start(*agents, **config):
        await opened.enter_async_context(contexts(agents))
        return await opened.enter_async_context(hub_over(tmp_path, *agents, **config))

    return start


@pytest.fixture
def start_agent_and_hub(start_hub):
    """Return a coroutine function that starts one agent with these ranks and a hub that asks it, and returns both."""

    async def start(*ranks, **config):
        agent = FakeAgent(*ranks)
        return agent, await start_hub(agent, **config)

    return start


@pytest.fixture
def store(tmp_path):
    """The baselines of the hub."""
    return BaselineStore(tmp_path / FOLDER)


@pytest.fixture
def journal_path(tmp_path):
    """The path of the journal's file, which does not exist yet."""
    return tmp_path / "data" / "findings.jsonl"


@pytest.fixture
def journal(journal_path):
    """An empty journal with its file at `journal_path`."""
    return Journal(journal_path)


@pytest.fixture
def resolves_soon(monkeypatch):
    """Let findings resolve after 0.3 s instead of two seconds."""
    monkeypatch.setattr("zmon.hub.journal.RESOLVE_AFTER_SECONDS", 0.3)
