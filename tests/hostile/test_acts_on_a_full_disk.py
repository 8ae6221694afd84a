"""Tests of acts of an agent whose disk is full: nothing is done without its audit line, and nothing is done twice."""

import errno
import os
from types import SimpleNamespace

import pytest

from tests.agent.acts.conftest import acting, start_job
from tests.agent.acts.jobs import ask_for, request_for, still_lives
from tests.agent.conftest import make_live_box, serve
from zmon.agent.acts import MAX_ACTS_OF_HOST
from zmon.schema.act import ACTED, REFUSED
from zmon.steplog import files

__all__ = ["acting", "make_live_box", "serve", "start_job"]  # fixtures
PLENTY = 1_000_000  # writes


@pytest.fixture
def disk(monkeypatch):
    """A disk that takes `writes_left` further writes."""
    disk, write = SimpleNamespace(writes_left=PLENTY), os.write

    def limited(fd, data):
        disk.writes_left -= 1
        if disk.writes_left < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(fd, data)

    monkeypatch.setattr(files.os, "write", limited)
    return disk


async def test_full_disk_ends_nothing(start_job, acting, disk):
    job = start_job()
    async with acting() as client:
        request = await request_for(client)
        disk.writes_left = 0
        answer = await ask_for(client, request)
        assert answer.result == REFUSED
        assert "nothing is done without its audit, which cannot be written: No space left on device" in answer.reason
        assert still_lives(job.pids[0])
        disk.writes_left = PLENTY
        assert (await ask_for(client, request)).result == ACTED
    assert job.rank_ended()


async def test_act_is_done_once_although_the_disk_is_full_after_its_audit_line(start_job, acting, disk):
    job = start_job(ranks=2)
    async with acting() as client:
        request = await request_for(client)
        disk.writes_left = 1  # for the audit line
        assert (await ask_for(client, request)).result == ACTED
        assert job.rank_ended()
        disk.writes_left = PLENTY
    async with acting() as client:
        again = await ask_for(client, request)
        assert (again.result, again.repeated) == (REFUSED, True)
        assert "an earlier request was interrupted" in again.reason
    assert still_lives(job.pids[1])


async def test_stop_holds_although_it_cannot_be_written(start_job, acting, disk, tmp_path):
    job_ids = [f"job-{number}" for number in range(MAX_ACTS_OF_HOST + 2)]
    jobs = [start_job(job_id=job_id) for job_id in job_ids]
    async with acting() as client:
        *allowed, fifth, sixth = [await request_for(client, job_id=job_id) for job_id in job_ids]
        for request in allowed:
            assert (await ask_for(client, request)).result == ACTED
        disk.writes_left = 0
        assert "within an hour" in (await ask_for(client, fifth)).reason
        assert not (tmp_path / "data/act-stops/all").exists()
        disk.writes_left = PLENTY
        assert "within an hour" in (await ask_for(client, sixth)).reason
        assert (tmp_path / "data/act-stops/all").exists()
    assert all(still_lives(job.pids[0]) for job in jobs[MAX_ACTS_OF_HOST:])
