"""Ranks of a launch for a hub that acts, and the intents of that hub over HTTP and on disk."""

import json

from tests.build import rank_state
from tests.hub import fakes
from tests.hub.acts.builds import RULE, of_launch
from zmon.hub.acts import FILE

ENFORCED = {**RULE, "mode": "enforce", "override": "a test"}


def frozen(attempt=0, **changes):
    """Return the ranks of a launch of which rank 2 is stopped; the others wait for it."""
    return of_launch(fakes.frozen(), attempt, **changes)


def healthy(attempt=0, step=100, **changes):
    """Return the ranks of a launch that trains."""
    return of_launch([rank_state(rank, step=step) for rank in range(4)], attempt, **changes)


async def intents(hub_client):
    """Return all intents that the hub has, newest first."""
    return (await hub_client.get("/api/v1/intents"))["intents"]


async def decided(hub_client, number=1):
    """Wait for this number of intents that no agent is being asked about, and return them, newest first."""

    async def ready():
        known = await intents(hub_client)
        are_answered = all(intent["result"] != "unanswered" for intent in known)
        return known if len(known) >= number and are_answered else None

    return await fakes.poll(ready)


def on_disk(tmp_path):
    """Return the intents in the file of the hub."""
    return [json.loads(line) for line in (tmp_path / FILE).read_text().splitlines()]
