"""Tests of the time accounts on disk. The next hub continues them. A damaged file is logged and not used."""

import os

import pytest

from tests.build import JOB, rank_state, snapshot
from tests.hub.fakes import FakeAgent, contexts, healthy, hub_over
from zmon.hub import accounts, json_folder
from zmon.hub.accounts import MAX_AGE_SECONDS, Accounts
from zmon.steplog.files import SteadyClock


def job(**changes):
    """Return the snapshot of a job that trains after 3 s of init."""
    return snapshot(*(rank_state(rank, between_seconds={"init": 3.0}, **changes) for rank in range(4)))


def observe_job(stored):
    """Observe the job once; return its account."""
    account = stored.account_of(job())
    account.update(job(), (), typical_seconds=0.02, stalled=False)
    return account


@pytest.fixture
def folder(tmp_path):
    """The folder of the accounts, which does not exist yet."""
    return tmp_path / "accounts"


def test_counters_show_what_the_next_hub_reads(folder, monkeypatch):
    monkeypatch.setattr(accounts, "SAVE_SECONDS", 3600.0)
    stored = Accounts(folder)
    account = observe_job(stored)
    assert stored.on_disk(JOB) is None
    stored.maintain([JOB])  # a new account is written at once
    account.update(job(), (), typical_seconds=0.02, stalled=False)
    account.causes["init"] = 9.0
    stored.maintain([JOB])
    shown, restored = stored.on_disk(JOB), Accounts(folder)
    assert shown.causes == {"init": 3.0}
    assert restored.account_of(job()).causes == shown.causes == restored.on_disk(JOB).causes
    stored.save()
    assert stored.on_disk(JOB).causes == {"init": 9.0}


def test_counters_of_another_job_with_the_same_id_begin_at_0(folder):
    stored = Accounts(folder)
    observe_job(stored).start.done = True
    stored.save()
    assert stored.account_of(job(run_uid="again")).causes == {}
    assert stored.on_disk(JOB) is None


def test_old_accounts_are_deleted(folder, monkeypatch):
    monkeypatch.setattr(accounts, "SAVE_SECONDS", 0.0)
    monkeypatch.setattr(json_folder, "PRUNE_SECONDS", 0.0)
    stored = Accounts(folder, SteadyClock(hold_seconds=0.0))
    observe_job(stored)
    stored.save()
    path = folder / f"{JOB}.json"
    stored.maintain([])
    assert path.exists()  # it is young, although nobody reports its job
    old = path.stat().st_mtime - MAX_AGE_SECONDS - 1
    os.utime(path, (old, old))
    stored.maintain([JOB])
    assert path.exists()
    stored.maintain([])
    assert not path.exists()


def test_damaged_account_starts_anew_with_a_line_in_the_log(folder, caplog):
    folder.mkdir()
    (folder / f"{JOB}.json").write_text('{"job_id": 1}')
    assert Accounts(folder).account_of(job()).causes == {}
    assert "the time account of the job starts anew" in caplog.text


async def test_restarted_hub_continues_the_account(tmp_path):
    agent = FakeAgent(*(rank_state(rank, between_seconds={"init": 3.0}) for rank in range(4)))
    async with contexts([agent]):
        async with hub_over(tmp_path, agent) as hub_client:
            await hub_client.passes()
        agent.ranks = healthy()  # the boxes hold less time now: no counter falls
        async with hub_over(tmp_path, agent) as hub_client:
            await hub_client.passes()
            (view,) = await hub_client.jobs()
            assert view["time"]["init"] == 3.0
