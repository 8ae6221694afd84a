"""Tests of the agent while the box directory cannot be scanned: no rank is shown in an outdated state."""

import shutil
import threading
import time

import pytest

from tests.agent.agent_client import FakeSource, get_json, get_metrics, get_snapshot, poll, shows
from tests.build import JOB
from zmon.agent.sources.boxes import Boxes
from zmon.process import process_id


class ScanFault:
    """A fault of the scan of the boxes: it hangs while `may_run` is clear, and raises `error` if that is set."""

    def __init__(self):
        self.may_run = threading.Event()
        self.error = None
        self.end()

    def begin(self, kind):
        """Let each scan hang, or raise from now on."""
        if kind == "hangs":
            self.may_run.clear()
        else:
            self.error = PermissionError(13, "Permission denied")

    def end(self):
        """Let scans succeed again."""
        self.error = None
        self.may_run.set()


@pytest.fixture
def scan_fault(monkeypatch):
    """Yield a fault of each scan of boxes, which has not begun."""
    scan, fault = Boxes.scan, ScanFault()

    def faulty_scan(boxes):
        fault.may_run.wait(30)
        if fault.error is not None:
            raise fault.error
        return scan(boxes)

    monkeypatch.setattr(Boxes, "scan", faulty_scan)
    yield fault
    fault.end()


async def unhealthy(client):
    """Return the answer of /healthz once its status is 503."""

    async def down():
        async with client.get("/healthz") as answer:
            return answer.status == 503 and await answer.json()

    return await poll(down)


@pytest.mark.parametrize("kind", ["hangs", "raises"])
async def test_ranks_are_hidden_while_scan_fails_and_shown_after_recovery(make_live_box, serve, scan_fault, kind):
    make_live_box().steps(3)
    nic = FakeSource("nic", "nics", lambda: ())
    async with serve(nic, scan_timeout_seconds=0.3, answer_seconds=0.5) as client:
        assert 'zmon_steps_total{host="node-a",job_id="job",rank="0"} 3.0' in await get_metrics(client)
        scan_fault.begin(kind)
        health = await unhealthy(client)
        assert (health["healthy"], [down["source"] for down in health["down"]]) == (False, ["boxes"])
        assert health["down"][0]["since"] > time.time() - 10
        begin = time.monotonic()
        page = await get_metrics(client)
        assert time.monotonic() - begin < 2  # the page does not wait for the scan
        assert f'job_id="{JOB}"' not in page
        assert 'zmon_source_up{host="node-a",source="boxes"} 0.0' in page
        assert 'zmon_source_up{host="node-a",source="nic"} 1.0' in page
        # After a 503 the hub shows the ranks as unwatched; after an empty answer the job would seem to have ended.
        error = (await get_json(client, "/api/v1/snapshot", status=503))["error"]
        assert error.startswith("cannot read the boxes in ")
        assert (await get_json(client, "/api/v1/evidence/job/0", status=503))["error"] == error
        assert (await get_json(client, "/api/v1/suspects?wait=30", status=503))["error"] == error
        assert await nic.is_read(5)
        scan_fault.end()
        assert await shows(client, 'rank="0"')
        assert len((await get_snapshot(client)).ranks) == 1
        assert (await get_json(client, "/healthz"))["down"] == []


async def test_ranks_are_hidden_before_a_hanging_scan_times_out(make_live_box, serve, scan_fault):
    """The result of the previous scan may be outdated before the timeout of the scan."""
    make_live_box().steps(3)
    async with serve(scan_timeout_seconds=30.0, answer_seconds=0.1) as client:
        assert 'rank="0"' in await get_metrics(client)
        scan_fault.begin("hangs")
        assert await shows(client, 'rank="0"', shown=False)
        await get_json(client, "/api/v1/snapshot", status=503)


async def test_sources_get_no_pids_while_the_scan_hangs(make_live_box, serve, scan_fault):
    box = make_live_box()
    async with serve(scan_timeout_seconds=0.2) as client:
        assert (await get_snapshot(client)).ranks
        assert client.agent._box_thread.processes() == {process_id(box.holder.pid): (JOB, 0)}
        scan_fault.begin("hangs")
        await unhealthy(client)
        assert client.agent._box_thread.processes() == {}


async def test_deleted_box_directory_is_scanned_again_after_a_rank_starts(make_live_box, serve, tmp_path):
    """The ranks keep training after `rm -rf` in /dev/shm, or after systemd's RemoveIPC at a logout."""
    first_box = make_live_box(0)
    first_box.steps(3)
    async with serve() as client:

        async def ranks():
            return {state.rank: (state.alive, state.steps) for state in (await get_snapshot(client)).ranks}

        assert await ranks() == {0: (True, 3)}
        shutil.rmtree(tmp_path)
        first_box.steps(2)
        assert await poll(ranks, accept={0: (True, 5)}.__eq__)
        assert (await get_json(client, "/healthz"))["healthy"]
        first_box.holder.end()
        assert await poll(ranks, accept={0: (False, 5)}.__eq__)
        make_live_box(1)
        assert await poll(ranks, accept=lambda states: 1 in states and states[1][0])
