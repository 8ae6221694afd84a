"""While the boxes cannot be read, the agent shows no rank in its old state, and everything else goes on."""

import os
import shutil
import threading
import time

import pytest

from tests.agent.agent_client import FakeSource, get, metrics, poll, snapshot, sources
from tests.build import JOB
from zmon.agent.sources.boxes import Boxes


@pytest.fixture
def blind(monkeypatch):
    """Make the scan of the boxes hang while `runs` is clear, or raise what `raises` holds."""
    scan, state = Boxes.scan, {"runs": threading.Event(), "raises": None}
    state["runs"].set()

    def faulty_scan(boxes):
        state["runs"].wait(30)
        if state["raises"] is not None:
            raise state["raises"]
        return scan(boxes)

    monkeypatch.setattr(Boxes, "scan", faulty_scan)
    yield state
    state["runs"].set()


async def strike(client, blind, how):
    """Make the scan fail, and return the answer of /healthz once it is 503."""

    async def down():
        async with client.get("/healthz") as answer:
            return answer.status == 503 and await answer.json()

    blind["runs"].clear() if how == "hangs" else blind.update(raises=PermissionError(13, "Permission denied"))
    return await poll(down)


@pytest.mark.parametrize("how", ["hangs", "raises"])
def test_ranks_are_hidden_while_the_scan_fails_and_back_after(live, ask, blind, how):
    live().steps(3)
    nic = FakeSource("nic", "nics", lambda: ())

    async def scenario(client):
        assert 'zmon_steps_total{host="node-a",job_id="job",rank="0"} 3.0' in await metrics(client)
        health = await strike(client, blind, how)
        assert (health["healthy"], [down["source"] for down in health["down"]]) == (False, ["boxes"])
        assert health["down"][0]["since"] > time.time() - 10
        begin = time.monotonic()
        page = await metrics(client)
        assert time.monotonic() - begin < 2  # the page does not wait for the scan
        assert f'job_id="{JOB}"' not in page
        assert 'zmon_source_up{host="node-a",source="boxes"} 0.0' in page
        assert 'zmon_source_up{host="node-a",source="nic"} 1.0' in page
        # After a refusal the hub shows the ranks as unwatched; after an empty answer it would take the job for ended.
        refused = await get(client, "/api/v1/snapshot", 503)
        assert refused["error"].startswith("cannot read the boxes in ")
        assert (await get(client, "/api/v1/evidence/job/0", 503))["error"] == refused["error"]
        assert (await get(client, "/api/v1/suspects?wait=30", 503))["error"] == refused["error"]
        reads = nic.num_reads

        async def others_go_on():
            return nic.num_reads > reads + 5

        assert await poll(others_go_on)
        blind["raises"] = None
        blind["runs"].set()

        async def back():
            return 'rank="0"' in await metrics(client)

        assert await poll(back)
        assert len((await snapshot(client)).ranks) == 1
        assert (await get(client, "/healthz"))["down"] == []

    ask(scenario, [nic], scan_timeout_seconds=0.3, answer_seconds=0.5)


def test_answer_does_not_wait_for_a_scan_that_hangs(live, ask, blind):
    """Until the scan times out, its last result may be outdated already."""
    live().steps(3)

    async def scenario(client):
        assert 'rank="0"' in await metrics(client)
        blind["runs"].clear()

        async def hidden():
            return 'rank="0"' not in await metrics(client)

        assert await poll(hidden)
        await get(client, "/api/v1/snapshot", 503)

    ask(scenario, scan_timeout_seconds=30.0, answer_seconds=0.1)


def test_sources_get_no_pids_while_the_scan_hangs(live, ask, blind):
    box, pids = live(), []

    async def scenario(client):
        assert (await snapshot(client)).ranks
        agent = client.agent
        assert agent._pids() == {box.process.pid: (JOB, 0)}
        await strike(client, blind, "hangs")
        pids.append(agent._pids())

    ask(scenario, scan_timeout_seconds=0.2)
    assert pids == [{}]


def test_box_directory_is_read_again_after_it_was_deleted(live, ask, tmp_path):
    """After `rm -rf` in /dev/shm, or systemd's RemoveIPC at a logout, the ranks train on and the boxes stay open."""
    before = live(0)
    before.steps(3)

    async def scenario(client):
        async def ranks():
            return {state.rank: state.alive for state in (await snapshot(client)).ranks}

        assert await ranks() == {0: True}
        shutil.rmtree(tmp_path)
        before.steps(2)

        async def five():
            return [state.steps for state in (await snapshot(client)).ranks] == [5]

        assert await poll(five)
        assert (await get(client, "/healthz"))["healthy"]
        before.process.end()

        async def dead():
            return await ranks() == {0: False}

        assert await poll(dead)
        live(1)

        async def new_rank():
            return (await ranks()).get(1)

        assert await poll(new_rank)

    ask(scenario)


def test_folder_that_cannot_be_listed_is_reported_and_does_not_hide_others(live, ask, tmp_path, monkeypatch):
    live(0)
    (tmp_path / "foreign/0").mkdir(parents=True)
    scandir = os.scandir

    def guarded(path):
        if str(path).endswith("foreign"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", guarded)

    async def scenario(client):
        assert len((await snapshot(client)).ranks) == 1
        assert (await sources(client))["boxes"]["dropped"] == [f"cannot read {tmp_path}/foreign: Permission denied"]

    ask(scenario)
