"""Fixtures: a hub over HTTP that asks the fake agents of a test, and a journal."""

import pytest

from tests.hub.fakes import contexts, hub_over
from zmon.hub import accounts
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
def journal_path(tmp_path):
    return tmp_path / "data" / "findings.jsonl"


@pytest.fixture
def journal(journal_path):
    return Journal(journal_path)


@pytest.fixture
def resolves_soon(monkeypatch):
    """Let findings resolve after 0.3 s instead of two seconds."""
    monkeypatch.setattr("zmon.hub.journal.RESOLVE_AFTER_SECONDS", 0.3)
