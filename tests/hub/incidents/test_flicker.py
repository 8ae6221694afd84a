"""Tests of findings that change all the time: evidence is seldom collected, a higher severity is written at once."""

import asyncio

import pytest

from tests.build import NOW, evidence, finding, opened_id
from tests.hub.incidents.build import stalled
from tests.hub.journals import resolve
from zmon.hub.config import HubConfig
from zmon.hub.incidents import collector, moments
from zmon.hub.incidents.collector import COLLECT_INTERVAL_SECONDS, Incidents
from zmon.hub.job_state import JobStates
from zmon.hub.journal import RESOLVE_AFTER_SECONDS, Journal
from zmon.hub.stall_evidence import EvidenceGatherer
from zmon.schema.gathered import RankStack


class Scene:
    """The incidents of a hub without agents, with the time given by the test."""

    def __init__(self, data_dir):
        config = HubConfig((), data_dir)
        self.journal = Journal(data_dir / "findings.jsonl")
        stall_evidence = EvidenceGatherer(config, [], self.journal, JobStates(data_dir), lambda snapshot: False)
        self.incidents = Incidents(config, [], self.journal, stall_evidence)

    async def update(self, time):
        """Make one pass without an error; return True if it started tasks."""
        num_tasks = await self.make_pass(time)
        assert self.incidents.error is None
        return bool(num_tasks)

    async def make_pass(self, time):
        """Make one pass and wait for the tasks that it started; return their number."""
        self.incidents.update(None, [stalled()], time)
        tasks = [incident.task for incident in self.incidents._open.values() if incident.task is not None]
        await asyncio.gather(*tasks)
        return len(tasks)

    async def report(self, time, *ranks, **changes):
        """Publish a finding at that time; return True if the capsule was written."""
        self.journal.open_or_update(finding(ranks=ranks, hosts=("node-a",) * len(ranks), **changes), time)
        return await self.update(time)

    @property
    def texts(self):
        """The texts of the timeline in the only capsule."""
        return [moment.what for moment in self.incidents.store.read(opened_id()).timeline]


@pytest.fixture
def scene(tmp_path):
    """A hub without incidents."""
    return Scene(tmp_path)


async def test_changing_culprits_are_collected_every_ten_seconds(scene):
    written = [await scene.report(NOW + second, 2 + second // 5 % 2) for second in range(100)]
    assert written.count(True) == 100 / COLLECT_INTERVAL_SECONDS
    assert len(scene.journal.active()) == 1
    num_collections = sum(text.startswith("evidence gathered") for text in scene.texts)
    assert 1 <= num_collections <= 100 / COLLECT_INTERVAL_SECONDS  # the journal holds its culprits for some seconds


async def test_bounded_timeline_of_a_flickering_incident_has_its_end(scene, monkeypatch):
    monkeypatch.setattr(moments, "MAX_MOMENTS", 40)
    for number in range(3 * moments.MAX_MOMENTS):
        await scene.report(NOW + number, 2, cause=f"cause {number % 2}", severity="warning")
    end = NOW + 3 * moments.MAX_MOMENTS
    await scene.report(end, 2, cause="cause 0", severity="critical")
    resolve(scene.journal, end + 1)
    await scene.update(end + 2 + RESOLVE_AFTER_SECONDS)
    assert len(scene.texts) <= moments.MAX_MOMENTS + 5
    assert any(text.startswith("first sign") for text in scene.texts)
    assert any(text.startswith("severity: warning → critical") for text in scene.texts)
    assert any(text.startswith("resolved") for text in scene.texts)


async def test_incident_is_collected_at_once_when_its_cause_becomes_known(scene):
    assert await scene.report(NOW, cause="unknown")
    assert await scene.report(NOW + 1, 2)
    assert not await scene.report(NOW + 2, 2, cause="compute_hang")
    assert await scene.report(NOW + 1 + COLLECT_INTERVAL_SECONDS, 2, cause="compute_hang")
    assert scene.incidents.store.read(opened_id()).finding.cause == "compute_hang"
    assert "diagnosis changed: unknown → rank_frozen" in scene.texts


async def test_rise_of_the_severity_and_end_of_an_incident_are_written_at_once(scene):
    for seconds, severity in enumerate(("warning", "critical")):
        assert await scene.report(NOW + seconds, 2, severity=severity)
    resolve(scene.journal, NOW + 2)
    assert await scene.update(NOW + 2 + RESOLVE_AFTER_SECONDS)
    assert not await scene.update(NOW + 60)
    assert scene.incidents.store.read(opened_id()).finding.resolved is not None


async def test_stacks_stay_in_the_capsule_when_the_journal_drops_them(scene):
    await scene.report(NOW, 2, evidence={"stacks": {"2": {"stack": "main"}}})
    resolve(scene.journal, NOW + 2)
    await scene.update(NOW + 5)
    await scene.update(NOW + 60)
    assert scene.journal.find(opened_id()).evidence == evidence(dropped=["stacks"])
    assert scene.incidents.store.read(opened_id()).finding.evidence.stacks == {"2": RankStack(stack="main")}


async def test_evidence_that_arrives_after_the_end_is_in_the_capsule(scene):
    async def gather():
        await asyncio.sleep(0.2)
        scene.journal.attach(opened_id(), evidence(stacks={"2": {"stack": "main"}}))

    await scene.report(NOW, 2)
    scene.incidents._stall_evidence._tasks[opened_id()] = asyncio.create_task(gather())
    resolve(scene.journal, NOW + 2)
    await scene.update(NOW + 5)
    assert scene.journal.find(opened_id()).evidence.dropped == ("stacks",)
    assert scene.incidents.store.read(opened_id()).finding.evidence.stacks == {"2": RankStack(stack="main")}


async def test_capsule_that_cannot_be_made_is_an_error_until_the_next_one_is_written(scene, monkeypatch):
    async def fails(*_):
        raise ValueError("an answer of an agent is damaged")

    scene.journal.open_or_update(finding(ranks=(2,), hosts=("node-a",)), NOW)
    with monkeypatch.context() as patch:
        patch.setattr(collector, "collect", fails)
        await scene.make_pass(NOW)
    assert scene.incidents.error == "ValueError: an answer of an agent is damaged"
    assert await scene.report(NOW + 1, 3, id="f2", detector="hardware")
    assert scene.incidents.error is None
