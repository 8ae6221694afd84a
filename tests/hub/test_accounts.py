"""Where the time of a job went survives the hub, and a damaged file is said and begun anew."""

import os

import pytest

from tests.build import JOB, rank_state, snapshot
from tests.hub.fakes import FakeAgent, contexts, healthy, hub_over
from zmon.hub import accounts
from zmon.hub.accounts import KEPT_SECONDS, Accounts


def seen(**changes):
    return snapshot(*(rank_state(rank, between_seconds={"init": 3.0}, **changes) for rank in range(4)))


def looked_at(kept, at=None):
    """The account of the job after one look."""
    account = kept.of(at or seen())
    account.update(at or seen(), (), 0.02, False)
    return account


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "accounts"


def test_another_hub_goes_on_with_it(folder):
    first = Accounts(folder)
    looked_at(first)
    first.save()
    again = looked_at(Accounts(folder))
    assert again.causes == {"init": 3.0}


def test_it_is_written_whole_and_nothing_else_lies_there(folder):
    kept = Accounts(folder)
    looked_at(kept)
    kept.save()
    kept.save()
    assert [path.name for path in folder.iterdir()] == [f"{JOB}.json"]


def test_what_nobody_reports_any_more_is_let_go_but_stays_on_disk(folder, monkeypatch):
    monkeypatch.setattr(accounts, "SAVE_SECONDS", 0.0)
    kept = Accounts(folder)
    looked_at(kept)
    kept.keep([])
    assert kept.of(seen()).causes == {"init": 3.0}


def test_old_ones_are_deleted(folder, monkeypatch):
    monkeypatch.setattr(accounts, "SAVE_SECONDS", 0.0)
    monkeypatch.setattr(accounts, "PRUNE_SECONDS", 0.0)
    kept = Accounts(folder)
    looked_at(kept)
    kept.save()
    path = folder / f"{JOB}.json"
    old = path.stat().st_mtime - KEPT_SECONDS - 1
    os.utime(path, (old, old))
    kept.keep([JOB])
    assert path.exists()
    kept.keep([])
    assert not path.exists()


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"job_id": 1}', b"\xff\xfe"])
def test_damaged_one_is_begun_anew_and_that_is_said(folder, damage, caplog):
    folder.mkdir()
    (folder / f"{JOB}.json").write_bytes(damage)
    assert Accounts(folder).of(seen()).causes == {}
    assert "where time went is counted from now on" in caplog.text


def test_folder_that_cannot_be_written_is_said_once(folder, caplog):
    folder.write_text("in the way")
    kept = Accounts(folder)
    looked_at(kept)
    kept.save()
    kept.save()
    assert kept.error is not None
    assert caplog.text.count("where time went is kept in memory only") == 1
    folder.unlink()
    kept.save()
    assert kept.error is None


def test_hub_that_is_started_again_goes_on(tmp_path):
    import asyncio

    agent = FakeAgent(*(rank_state(rank, between_seconds={"init": 3.0}) for rank in range(4)))

    async def main():
        async with contexts([agent]):
            async with hub_over(tmp_path, agent) as door:
                await door.passes()
            agent.ranks = healthy()  # what is in the boxes is less now: nothing falls
            async with hub_over(tmp_path, agent) as door:
                await door.passes()
                (job,) = (await door.get("/api/v1/jobs"))["jobs"]
                assert job["time"]["init"] == 3.0

    asyncio.run(asyncio.wait_for(main(), 20))
