"""Tests of a hub on a full disk: it reports what it cannot write, goes on, and writes it later.

Everything is written through zmon/steplog/files.py, so the tests replace `os.write` there.
"""

import errno
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from tests.agent.agent_client import poll
from tests.build import NOW, finding, opened_id
from tests.hub.fakes import FakeAgent, frozen, healthy, hub_over
from tests.hub.test_accounts import job, observe_job
from tests.hub.test_ended_jobs import record_end
from tests.schema.test_curve import ALONE
from zmon.errors import ZmonError
from zmon.hub import accounts, json_folder, json_lines
from zmon.hub.accounts import Accounts
from zmon.hub.baseline_store import BaselineStore
from zmon.hub.ended_jobs import EndedJobs
from zmon.hub.journal import Journal
from zmon.hub.pauses import PauseStore
from zmon.hub.write_errors import RETRY_SECONDS
from zmon.schema.pause import Place
from zmon.steplog import files


@pytest.fixture
def disk(monkeypatch):
    """The disk to which the hub writes; it is full while its `full` is set."""
    disk, write = SimpleNamespace(full=False), os.write

    def write_half(fd, data):
        half = len(data) // 2
        if disk.full and half <= 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(fd, data[:half] if disk.full else data)  # a full disk takes some bytes before it fails

    monkeypatch.setattr(files.os, "write", write_half)
    return disk


def test_finding_of_a_full_disk_is_written_once_there_is_room(tmp_path, disk, caplog):
    path = tmp_path / "findings.jsonl"
    findings = Journal(path)
    findings.open_or_update(finding(), NOW)
    disk.full = True
    findings.open_or_update(finding(id="f2", job_id="other"), NOW)
    assert [f.id for f in findings.active()] == [opened_id("f1"), opened_id("f2")]
    assert "No space left" in findings.error
    assert [f.id for f in Journal(path).all()] == [opened_id("f1")]
    disk.full = False
    findings.retry(NOW + RETRY_SECONDS)
    assert findings.error is None
    assert {f.id for f in Journal(path).all()} == {opened_id("f1"), opened_id("f2")}
    messages = [record.getMessage() for record in caplog.records]
    assert sum("cannot write" in message for message in messages) == 2  # of this journal, and of the one that read it


@dataclass(frozen=True)
class Store:
    """A store of the hub, and how a test uses it. Each function gets the store."""

    make: type  # its class; the only argument is the folder
    write: Callable[[Any], Any]
    retry: Callable[[Any], Any]  # writes again what a full disk has refused
    read: Callable[[Any], Any]  # true if the store has the written value


STORES = {
    "end of a job": Store(
        EndedJobs,
        lambda store: record_end(store, "job"),
        lambda store: store.forget_old(NOW + RETRY_SECONDS, ["job"]),
        lambda store: store.ended("job", NOW) is not None,
    ),
    "pause": Store(
        PauseStore,
        lambda store: store.record("ranker", [Place("data", "read() at loader.py:40")], 6.2, NOW),
        lambda store: store.pauses("ranker", NOW + RETRY_SECONDS),
        lambda store: bool(store.pauses("ranker", NOW)),
    ),
    "account": Store(
        Accounts,
        lambda store: (observe_job(store), store.save()),
        Accounts.save,
        lambda store: store.account_of(job()).causes == {"init": 3.0},
    ),
}


@pytest.mark.parametrize("kind", STORES.values(), ids=STORES)
def test_store_on_a_full_disk_is_written_once_there_is_room(tmp_path, disk, kind):
    store = kind.make(tmp_path)
    disk.full = True
    kind.write(store)
    assert "No space left" in store.error
    assert not kind.read(kind.make(tmp_path))
    disk.full = False
    kind.retry(store)
    assert store.error is None
    assert kind.read(store)
    assert kind.read(kind.make(tmp_path))


def test_baseline_on_a_full_disk_is_an_error_and_leaves_the_old_one(tmp_path, disk):
    store = BaselineStore(tmp_path)
    store.record("ranker", ALONE)
    disk.full = True
    with pytest.raises(ZmonError, match="No space left"):
        store.record("ranker", ALONE)
    assert store.curve("ranker").points == (ALONE,)


async def test_hub_on_a_full_disk_says_what_it_cannot_keep_and_finds_faults(tmp_path, disk, caplog, monkeypatch):
    monkeypatch.setattr(accounts, "SAVE_SECONDS", 0.05)
    for store in (json_folder, json_lines):
        monkeypatch.setattr(store, "RETRY_SECONDS", 0.2)
    caplog.set_level(logging.WARNING)
    agent = FakeAgent(*healthy())
    async with agent.serve(), hub_over(tmp_path, agent) as hub_client:

        async def health():
            return await hub_client.get("/healthz")

        await hub_client.passes(2)
        assert (await health())["unwritten"] == {}
        disk.full = True
        counted = await hub_client.metric("zmon_job_time_seconds_total")
        agent.ranks = frozen()
        (fault,) = await poll(hub_client.findings)
        assert fault["cause"] == "rank_frozen"
        shown = await poll(health, accept=lambda now: now["unwritten"] and now["incidents_unwritten"])
        assert shown["healthy"]
        for part in (shown["findings_unwritten"], shown["incidents_unwritten"], shown["unwritten"]["time accounts"]):
            assert "No space left" in part
        # A counter must not shrink when the hub restarts, so it shows only the time that is written.
        assert await hub_client.metric("zmon_job_time_seconds_total") == counted
        await hub_client.passes(20)
        disk.full = False
        assert await poll(health, 10.0, accept=lambda now: not now["unwritten"] and not now["findings_unwritten"])
    lines = [record.getMessage() for record in caplog.records if "cannot write" in record.getMessage()]
    assert 0 < len(lines) < 8  # each store logs once a minute at most, however many passes there are
    assert [f.cause for f in Journal(tmp_path / "findings.jsonl").all()] == ["rank_frozen"]
