"""Tests of pauses through the whole hub: a warning at first, info the second time, also after a restart of the hub."""

from pathlib import Path

import pytest

from tests.build import rank_state, waiting
from tests.hub.fakes import FakeAgent, HubClient, hub_over, poll
from zmon.schema.rank import RankState

STACK = 'Thread 1 (idle): "MainThread"\n    read (/home/ann/loader.py:40)\n    <module> (/home/ann/train.py:9)\n'


class Job(FakeAgent):
    """A fake agent whose job pauses in the loader of rank 2."""

    steps = 100

    def __init__(self) -> None:
        super().__init__(*(rank_state(rank) for rank in range(4)))
        self.stack = STACK

    def pause(self, seconds: float) -> None:
        """Let the job have waited for the loader of rank 2 for this time."""
        self.ranks = [self._rank(rank, seconds) for rank in range(4)]

    def go_on(self) -> None:
        """Let all ranks have finished one more step."""
        self.steps += 1
        self.ranks = [rank_state(rank, steps=self.steps, step=self.steps) for rank in range(4)]

    def _rank(self, rank: int, seconds: float) -> RankState:
        loading = {"in_flight": None, "phase": "data"} if rank == 2 else {}
        return waiting(rank, seconds, steps=self.steps, step=self.steps, **loading)


async def severities(hub_client: HubClient, query: str = "") -> list[str]:
    """Return the severities of all findings, the newest first."""
    return [finding["severity"] for finding in await hub_client.findings(query)]


async def pause_and_go_on(hub_client: HubClient, job: Job) -> None:
    """Pause for 5 s, until the hub knows the place of the pause, and go on until its finding is resolved."""
    job.pause(1.8)
    assert await poll(hub_client.findings)
    job.pause(5.0)

    async def places() -> list[object]:
        return [f for f in await hub_client.findings() if f["evidence"].get("silence", {}).get("places")]

    assert await poll(places)
    await hub_client.passes(3)
    job.go_on()
    assert await poll(hub_client.no_findings)


@pytest.mark.slow
async def test_pause_that_healed_at_a_place_is_info_the_next_time_also_for_the_next_hub(tmp_path: Path) -> None:
    job = Job()

    async with job.serve():
        async with hub_over(tmp_path, job) as hub_client:
            await pause_and_go_on(hub_client, job)
            assert await severities(hub_client) == ["warning"]
            (view,) = (await hub_client.get("/api/v1/jobs"))["jobs"]
            assert view["pauses"][0]["place"] == {"phase": "data", "frame": "read() at loader.py:40"}
            assert (view["pauses"][0]["longest_seconds"], view["pauses"][0]["number"]) == (5.0, 1)
            await pause_and_go_on(hub_client, job)
            assert await severities(hub_client) == ["info", "warning"]
        async with hub_over(tmp_path, job) as hub_client:
            await pause_and_go_on(hub_client, job)
            assert await severities(hub_client) == ["info", "info", "warning"]


async def test_warning_that_rises_stays_one_finding(tmp_path: Path) -> None:
    job = Job()

    async with job.serve(), hub_over(tmp_path, job) as hub_client:
        job.pause(5.0)
        (first,) = await poll(hub_client.findings)
        assert first["severity"] == "warning"
        job.pause(21.0)
        assert await poll(lambda: severities(hub_client), until=["critical"].__eq__) == ["critical"]
        (second,) = await hub_client.findings("")
        assert (second["id"], second["cause"], second["ranks"]) == (first["id"], "input_stall", [2])
        assert "critical after 20 s" in second["summary"]
        assert await hub_client.metric('zmon_finding{cause="input_stall"') == [1.0]
