"""The fixture `run_scenario`, which runs a scenario against a hub over HTTP."""

import asyncio

import pytest

from tests.hub.fakes import contexts, hub_over


@pytest.fixture
def run_scenario(tmp_path):
    """Run a scenario with a hub that asks these agents."""

    def run(scenario, *agents, **config):
        async def main():
            async with contexts(agents), hub_over(tmp_path, *agents, **config) as hub_client:
                await asyncio.wait_for(scenario(hub_client), 20)

        asyncio.run(main())

    return run
