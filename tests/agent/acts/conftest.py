"""Fixtures for tests of acts: jobs that are ended afterwards, and agents that may act."""

from contextlib import asynccontextmanager

import pytest

from tests.agent.acts.jobs import LaunchedJob
from zmon.agent.acts.ledger import ActLedger


@pytest.fixture
def start_job(tmp_path):
    """Yield a function that starts a job, whose boxes are in the folder of the test."""
    jobs = []

    def start(**options):
        jobs.append(LaunchedJob(tmp_path / "boxes", **options))
        return jobs[-1]

    yield start
    for job in jobs:
        job.end()


@pytest.fixture
def acting(tmp_path, serve):
    """Return a function that serves an agent with --allow-actions, and yields a client of it."""

    @asynccontextmanager
    async def run(box_dir=tmp_path / "boxes", **config):
        options = {"allow_actions": True, "data_dir": tmp_path / "data", "without": frozenset(("steps",)), **config}
        async with serve(box_dir=box_dir, **options) as client:
            yield client

    return run


@pytest.fixture
def end_acts_after(monkeypatch):
    """Return a function that ends the acts of an agent, as its own end does, once an event is in the ledger."""

    def end_after(event, acts):
        write = ActLedger.write

        def write_and_end(ledger, entry):
            write(ledger, entry)
            if entry.event == event:
                acts.close()

        monkeypatch.setattr(ActLedger, "write", write_and_end)

    return end_after
