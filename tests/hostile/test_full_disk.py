"""Tests of a hub and a step log on a full disk: each part says what it cannot keep, goes on, and writes it later.

The disk is full at the one place through which all of them write (zmon/steplog/files.py).
"""

import asyncio
import errno
import logging
import os

import pytest

from tests.build import NOW, finding
from tests.hub.fakes import FakeAgent, frozen, healthy, hub_over, poll
from tests.hub.test_accounts import observed
from tests.hub.test_ended_jobs import record_end
from tests.schema.test_curve import ALONE
from tests.steplog.build import inodes, logged, rank_box, step_numbers
from zmon.errors import ZmonError
from zmon.hub import accounts
from zmon.hub.accounts import Accounts
from zmon.hub.baseline_store import BaselineStore
from zmon.hub.ended_jobs import EndedJobs
from zmon.hub.journal import Journal
from zmon.hub.json_folder import RETRY_SECONDS
from zmon.hub.pause_store import PauseStore
from zmon.schema.pause import Place
from zmon.steplog import StepLog, files


class Disk:
    """A disk that may be full."""

    def __init__(self):
        self.full = False
        self._write = os.write

    def write(self, fd, data):
        if self.full:
            half = len(data) // 2
            if half > 1:
                return self._write(fd, data[:half])  # a full disk takes some bytes before it fails
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self._write(fd, data)


@pytest.fixture
def disk(monkeypatch):
    disk = Disk()
    monkeypatch.setattr(files.os, "write", disk.write)
    return disk


def test_finding_of_a_full_disk_is_written_once_there_is_room(tmp_path, disk, caplog):
    path = tmp_path / "findings.jsonl"
    findings = Journal(path)
    findings.open_or_update(finding(), NOW)
    disk.full = True
    findings.open_or_update(finding(id="f2", job_id="other"), NOW)
    assert [f.id for f in findings.active()] == ["f1", "f2"]
    assert "No space left" in findings.error
    assert [f.id for f in Journal(path).all()] == ["f1"]
    disk.full = False
    findings.retry(NOW + RETRY_SECONDS)
    assert findings.error is None
    assert {f.id for f in Journal(path).all()} == {"f1", "f2"}
    assert sum("cannot write" in record.getMessage() for record in caplog.records) == 2  # and the hub that read it


def test_end_of_a_job_on_a_full_disk_is_written_once_there_is_room(tmp_path, disk):
    store = EndedJobs(tmp_path)
    disk.full = True
    record_end(store, "job")
    assert store.ended("job", NOW)
    assert "No space left" in store.error
    assert not EndedJobs(tmp_path).ended("job", NOW)
    disk.full = False
    store.forget_old(NOW + RETRY_SECONDS, ["job"])
    assert store.error is None
    assert EndedJobs(tmp_path).ended("job", NOW)


def test_pause_on_a_full_disk_is_written_once_there_is_room(tmp_path, disk):
    store = PauseStore(tmp_path)
    disk.full = True
    store.record("ranker", [Place("data", "loader.py:40, read")], 6.2, NOW)
    assert store.pauses("ranker", NOW)
    assert "No space left" in store.error
    disk.full = False
    assert store.pauses("ranker", NOW + RETRY_SECONDS)
    assert store.error is None
    assert PauseStore(tmp_path).pauses("ranker", NOW)


def test_account_on_a_full_disk_is_written_once_there_is_room(tmp_path, disk):
    store = Accounts(tmp_path)
    observed(store)
    disk.full = True
    store.save()
    assert "No space left" in store.error
    disk.full = False
    store.save()
    assert store.error is None
    assert observed(Accounts(tmp_path)).causes == {"init": 3.0}


def test_baseline_on_a_full_disk_is_an_error_and_leaves_the_old_one(tmp_path, disk):
    store = BaselineStore(tmp_path)
    store.record("ranker", ALONE)
    disk.full = True
    with pytest.raises(ZmonError, match="No space left"):
        store.record("ranker", ALONE)
    assert store.curve("ranker").points == (ALONE,)


def test_steps_on_a_full_disk_are_written_once_there_is_room(tmp_path, disk):
    box = rank_box(tmp_path / "boxes")
    log = StepLog(tmp_path / "steps", "node-a")
    box.steps(5)
    log.append(inodes(box))
    disk.full = True
    box.steps(5)
    with pytest.raises(ZmonError, match="No space left"):
        log.append(inodes(box))
    assert [step_numbers(run) for run in logged(tmp_path / "steps")] == [[1, 2, 3, 4, 5]]
    disk.full = False
    log.append(inodes(box))
    log.close()
    assert [step_numbers(run) for run in logged(tmp_path / "steps")] == [[*range(1, 11)]]


def test_hub_on_a_full_disk_says_what_it_cannot_keep_and_finds_faults(tmp_path, disk, caplog, monkeypatch):
    monkeypatch.setattr(accounts, "SAVE_SECONDS", 0.05)
    agent = FakeAgent(*healthy())

    async def scenario(hub_client):
        await hub_client.passes(2)
        assert (await hub_client.get("/healthz"))["unwritten"] == {}
        disk.full = True
        agent.ranks = frozen()
        (fault,) = await poll(hub_client.findings)
        assert fault["cause"] == "rank_frozen"

        async def unwritten():
            health = await hub_client.get("/healthz")
            return health if health["unwritten"] and health["incidents_unwritten"] else None

        health = await poll(unwritten)
        assert health["healthy"]
        assert "No space left" in health["findings_unwritten"]
        assert "No space left" in health["incidents_unwritten"]
        assert "No space left" in health["unwritten"]["time accounts"]
        await hub_client.passes(20)
        disk.full = False

        async def written():
            health = await hub_client.get("/healthz")
            return not health["unwritten"] and not health["findings_unwritten"]

        assert await poll(written, 10.0)

    async def main():
        async with agent.serve(), hub_over(tmp_path, agent) as hub_client:
            await asyncio.wait_for(scenario(hub_client), 30)

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    lines = [record.getMessage() for record in caplog.records if "cannot write" in record.getMessage()]
    assert 0 < len(lines) < 8
    assert [f.cause for f in Journal(tmp_path / "findings.jsonl").all()] == ["rank_frozen"]
