"""Tests of hostile and careless neighbours, through boxes, environment and HTTP, from the box up to `zmon status`.

zmon reports such a neighbour with the name of its job. All other jobs stay watched, and no name that a neighbour chose
leads outside the data directory.
"""

from __future__ import annotations

import asyncio
import json
import os
import struct
import subprocess
import sys
import tracemalloc
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
import pytest
from aiohttp import web

from tests.agent.agent_client import get_json, get_metrics, poll
from tests.agent.conftest import make_live_box, serve
from tests.boxes import IDENTITY
from tests.build import JOB, NOW, agent_report, agent_status, rank_state
from tests.hub.fakes import FakeAgent, healthy, hub_over
from zmon.agent.sources import unread_boxes
from zmon.box.layout import MAGIC
from zmon.box.versions import CURRENT
from zmon.detectors import ALL
from zmon.detectors.unread import Unread
from zmon.hub import unread_jobs
from zmon.job.timeline import snapshots
from zmon.schema.limits import MAX_NAMED_MISSING, MAX_WORLD_SIZE

__all__ = ["make_live_box", "serve"]  # fixtures
MEBIBYTE = 1 << 20
RANK = """
from zmon import probe
assert probe.attach_box()
print("ready", flush=True)
input()
"""


class Scripted(FakeAgent):
    """An agent that answers with the given bytes, or with the JSON of a value."""

    def __init__(self, report: Any) -> None:
        super().__init__()
        self.body = report if isinstance(report, bytes) else json.dumps(report).encode()

    async def snapshot(self, request: web.Request) -> web.Response:
        """Answer every request for a report with the same body."""
        return web.Response(body=self.body, content_type="application/json")


def report_of(*ranks):
    """Return the report of an agent as plain data, to be changed by a test; by default of four ranks that train."""
    return json.loads(msgspec.json.encode(agent_report(*(ranks or healthy()))))


async def ranks_of(agent):
    """Return the ranks that an agent reports."""
    return (await get_json(agent, "/api/v1/snapshot"))["ranks"]


async def first_finding(hub_client, cause):
    """Return the first finding with this cause, once the hub has one."""

    def matching(findings):
        return [finding for finding in findings if finding["cause"] == cause]

    findings = await poll(hub_client.findings, 15.0, accept=matching)
    assert findings, await hub_client.findings()
    return matching(findings)[0]


@pytest.fixture
def quick_unread(monkeypatch):
    """Report a box that cannot be read after 0.2 s and not after 5 s; the agent tries it again after 0.1 s."""
    monkeypatch.setattr(unread_jobs, "Unread", partial(Unread, after_seconds=0.2))
    monkeypatch.setattr(unread_boxes, "RETRY_NS", 100_000_000)


@pytest.fixture
def traced():
    """Trace allocations; yield a function that returns the peak in bytes since the test began."""
    tracemalloc.start()
    yield lambda: tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()


# -- a claimed world size -----------------------------------------------------------------------------------


@pytest.mark.usefixtures("quick_unread")
async def test_rank_that_claims_two_billion_ranks_is_a_warning_and_others_are_watched(make_live_box, serve, tmp_path):
    make_live_box(0, world_size=1, job_id="quiet")
    make_live_box(1, job_id="large").writer.identity(replace(IDENTITY, job_id="large", world_size=2_000_000_000))
    async with serve() as agent, hub_over(tmp_path / "data", agent) as hub_client:
        finding = await first_finding(hub_client, "box_refused")
        assert (finding["job_id"], finding["severity"], finding["hosts"]) == ("large", "warning", ["node-a"])
        assert "2,000,000,000" in finding["summary"]
        assert [job["job_id"] for job in await hub_client.jobs()] == ["quiet"]
        assert "zmon_boxes_unread" in await get_metrics(agent)


@pytest.mark.parametrize("world_size", [2_000_000_000, MAX_WORLD_SIZE + 1, 10**18, 10**40])
async def test_hub_refuses_a_job_whose_world_is_too_large_in_the_report_of_an_agent(world_size, tmp_path, traced):
    report = report_of(*healthy(), rank_state(0, job_id="large"))
    report["ranks"][-1]["world_size"] = world_size
    async with Scripted(report).serve() as agent, hub_over(tmp_path, agent) as hub_client:
        finding = await first_finding(hub_client, "report_unreadable")
        assert finding["job_id"] == "large"
        assert [job["job_id"] for job in await hub_client.jobs()] == [JOB]
    assert traced() < 64 * MEBIBYTE


def test_nothing_is_as_large_as_the_world_that_a_rank_claims(traced):
    state = rank_state(7, world_size=MAX_WORLD_SIZE, activity_seconds=60.0)
    (job,) = snapshots([agent_report(state)], [], [agent_status()], NOW)
    assert job.missing == tuple(rank for rank in range(MAX_NAMED_MISSING + 1) if rank != 7)
    assert job.num_missing == MAX_WORLD_SIZE - 1
    for detector in ALL:
        for finding in detector.detect(job):
            assert len(msgspec.json.encode(finding)) < 100_000
        detector.inert_reason(job)
    assert traced() < 2 * MEBIBYTE


# -- bytes that are not UTF-8 ------------------------------------------------------------------------------


@pytest.mark.e2e
async def test_label_and_file_name_that_are_not_utf_8_hide_nothing(serve, tmp_path):
    env = {**os.environb, b"ZMON_BOX_DIR": os.fsencode(tmp_path), b"ZMON_JOB_ID": b"job", b"RANK": b"0"}
    env |= {b"WORLD_SIZE": b"1", b"LOCAL_RANK": b"0", b"ZMON_LABELS": b"owner=M\xfcller,name=a\x1b[2J\nb"}
    command = [sys.executable, "-c", RANK]
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as rank:
        assert rank.stdout.readline() == "ready\n"
        (tmp_path / "job" / "0" / os.fsdecode(b"rank-\xff.box")).write_bytes(b"")
        try:
            async with serve() as agent, hub_over(tmp_path / "data", agent) as hub_client:
                (state,) = await poll(lambda: ranks_of(agent))
                assert state["labels"] == {"owner": "M\ufffdller", "name": "a\\x1b[2J b"}
                health = await get_json(agent, "/healthz")
                (boxes,) = [source for source in health["sources"] if source["name"] == "boxes"]
                assert any("rank-\ufffd.box" in line for line in boxes["dropped"])
                assert "M\ufffdller" not in await get_metrics(agent)
                (job,) = await poll(hub_client.jobs)
                assert job["labels"]["owner"] == "M\ufffdller"
                assert await hub_client.metric('zmon_job_info{job_id="job"')
        finally:
            rank.communicate("\n")


async def test_bytes_of_an_agent_that_are_not_utf_8_hide_no_other_agent(tmp_path):
    broken = msgspec.json.encode(agent_report(*healthy(), host="node-b")).replace(b"gloo", b"gl\xffo")
    other = FakeAgent(rank_state(0, job_id="other", world_size=1))
    async with Scripted(broken).serve() as agent, other.serve(), hub_over(tmp_path, agent, other) as hub_client:
        assert await poll(hub_client.jobs, accept=lambda jobs: len(jobs) == 2)


@pytest.mark.parametrize("body", [b"[" * 200_000, b'{"host": "' + b"\xff" * 100, b'"\\ud800"', b"{}", b"null"])
async def test_answer_that_cannot_be_decoded_does_not_end_the_pass(body, tmp_path):
    good = FakeAgent(*healthy())
    async with Scripted(body).serve() as agent, good.serve(), hub_over(tmp_path, agent, good) as hub_client:
        await hub_client.passes(3)
        assert [job["ranks_seen"] for job in await hub_client.jobs()] == [4]


# -- names that lead elsewhere -----------------------------------------------------------------------------


@pytest.mark.parametrize("job_id", ["/../../../tmp/x", "../../x", "..", "a/../../b", "a\0b"])
async def test_job_id_of_an_agent_writes_nothing_outside_the_data_directory(job_id, tmp_path):
    data = tmp_path / "a" / "b" / "data"
    report = report_of(
        *healthy(), rank_state(0, world_size=1, alive=False, gone_seconds=5.0, exit_status="exit code 1")
    )
    report["ranks"][-1]["job_id"] = job_id
    report["records"] = {job_id: {"uid-0": []}}
    async with Scripted(report).serve() as agent, hub_over(data, agent) as hub_client:
        await hub_client.passes(3)
        assert [job["job_id"] for job in await hub_client.jobs()] == [JOB]
        hub_client.hub.job_states.accounts.save()
    outside = [path for path in tmp_path.rglob("*") if not path.is_relative_to(data) and path not in data.parents]
    assert outside == []


# -- a box that nobody can read ----------------------------------------------------------------------------


@pytest.mark.usefixtures("quick_unread")
async def test_running_job_of_a_newer_zmon_is_a_finding_and_exit_code_1(make_live_box, serve, tmp_path, command):
    """It is not `no jobs` with exit code 0, because the job is not watched."""
    box = make_live_box(2, job_id="night-42")
    box.overwrite(len(MAGIC), struct.pack("<I", CURRENT.version + 1))
    async with serve() as agent, hub_over(tmp_path / "data", agent) as hub_client:
        finding = await first_finding(hub_client, "box_version")
        assert (finding["job_id"], finding["severity"]) == ("night-42", "warning")
        url = str(hub_client.client.make_url("")).rstrip("/")
        code, out, _ = await asyncio.to_thread(command, "status", "--hub", url)
        assert code == 1
        assert "WARNING box_version, job night-42" in out
        assert f"layout version {CURRENT.version + 1}" in out
        assert "no jobs" not in out
        assert await hub_client.metric('zmon_finding{cause="box_version",detector="unread"')
        assert 'zmon_boxes_unread{host="node-a",kind="version"} 1.0' in await get_metrics(agent)
        box.holder.end()
        assert await poll(hub_client.no_findings, 15.0)
        code, *_ = await asyncio.to_thread(command, "status", "--hub", url)
        assert code == 0


# -- escape sequences --------------------------------------------------------------------------------------


async def test_escape_sequences_of_an_agent_reach_neither_the_terminal_nor_the_log(tmp_path, command, caplog):
    evil = "\x1b]0;owned\x07\x1b[2J\n2026-11-23 zmon.hub INFO all is well\u202e"
    state = rank_state(
        0, world_size=1, report={evil: 1.0}, labels={"owner": evil}, device=evil, activity=evil, phase=evil,
        alive=False, gone_seconds=5.0, exit_status=evil, process_state=None, lease_seconds=1.0,
    )  # fmt: skip
    async with Scripted(report_of(state)).serve() as agent, hub_over(tmp_path, agent) as hub_client:
        assert await poll(hub_client.findings)
        url = str(hub_client.client.make_url("")).rstrip("/")
        for arguments in (("status",), ("status", "--job", JOB), ("incident",)):
            _, out, err = await asyncio.to_thread(command, *arguments, "--hub", url)
            assert out
            assert not set("\x1b\x07\u202e") & {*out, *err}
            assert not any(line.startswith("2026-11-23 zmon.hub INFO") for line in (out + err).splitlines())
    assert not any("\x1b" in record.getMessage() or "\n" in record.getMessage() for record in caplog.records)
