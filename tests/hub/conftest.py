"""The fixture `run_scenario`, which runs a scenario against a hub over HTTP."""

import asyncio

import pytest

from tests.hub.fakes import contexts, hub_over
from zmon.hub import accounts


@pytest.fixture
def run_scenario(tmp_path, monkeypatch):
    """Run a scenario with a hub that asks these agents, and whose counters show each pass."""
    monkeypatch.setattr(accounts, "SAVE_SECONDS", 0.0)

    def run(scenario, *agents, **config):
        async def main():
            async with contexts(agents), hub_over(tmp_path, *agents, **config) as hub_client:
                await asyncio.wait_for(scenario(hub_client), 20)

        asyncio.run(main())

    return run
