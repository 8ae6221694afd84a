"""A verdict that changes for ever costs a collection now and then; one that gets worse or ends is told at once."""

import asyncio

import pytest

from tests.build import NOW, evidence, finding
from tests.hub.incidents.build import stalled
from zmon.hub.config import HubConfig
from zmon.hub.gathering import Gathering
from zmon.hub.incidents import moments
from zmon.hub.incidents.collector import AGAIN_SECONDS, Incidents
from zmon.hub.job_state import JobStates
from zmon.hub.journal import RESOLVE_AFTER_SECONDS, Journal
from zmon.schema.evidence import RankStack


class Scene:
    """A hub's incidents without agents, on a clock of the test's."""

    def __init__(self, room):
        config = HubConfig((), room)
        self.journal = Journal(room / "findings.jsonl")
        gathering = Gathering(config, [], self.journal, JobStates(room))
        self.incidents = Incidents(config, [], self.journal, gathering)

    async def follow(self, at):
        """One pass, and all that it began; whether it began something."""
        self.incidents.follow(None, [stalled()], at)
        tasks = [one.task for one in self.incidents._open.values() if one.task is not None]
        await asyncio.gather(*tasks)
        assert self.incidents.error is None
        return bool(tasks)

    async def say(self, at, *ranks, **changes):
        """The verdict at that time, published; whether the capsule was written."""
        self.journal.conclude(finding(ranks=ranks, hosts=("node-a",) * len(ranks), **changes), at)
        return await self.follow(at)

    @property
    def told(self):
        return [moment.what for moment in self.incidents.folder.read("f1").timeline]


@pytest.fixture
def scene(tmp_path):
    return Scene(tmp_path)


def test_culprits_that_change_every_few_seconds_are_collected_every_ten(scene):
    async def main():
        return [await scene.say(NOW + second, 2 + second // 5 % 2) for second in range(100)].count(True)

    assert asyncio.run(main()) <= 100 / AGAIN_SECONDS
    assert len(scene.journal.active()) == 1
    assert sum(what.startswith("evidence gathered") for what in scene.told) <= 100 / AGAIN_SECONDS


def test_timeline_of_an_incident_that_flickers_is_bounded_and_ends_with_its_end(scene):
    async def main():
        for number in range(3 * moments.MAX_MOMENTS):
            await scene.say(NOW + number, 2, cause=f"cause {number % 2}", severity="warning")
        end = NOW + 3 * moments.MAX_MOMENTS
        await scene.say(end, 2, cause="cause 0", severity="critical")
        for seconds in (1, 1 + RESOLVE_AFTER_SECONDS):
            scene.journal.settle("job", "stall", end + seconds)
        await scene.follow(end + 2 + RESOLVE_AFTER_SECONDS)

    asyncio.run(main())
    assert len(scene.told) <= moments.MAX_MOMENTS + 5
    assert any(what.startswith("first sign") for what in scene.told)
    assert any(what.startswith("severity: warning → critical") for what in scene.told)
    assert any(what.startswith("resolved") for what in scene.told)


def test_what_was_unknown_is_collected_again_at_once_when_somebody_is_named(scene):
    async def main():
        assert await scene.say(NOW, cause="unknown")
        assert await scene.say(NOW + 1, 2)
        assert not await scene.say(NOW + 2, 2, cause="compute_hang")
        assert await scene.say(NOW + 1 + AGAIN_SECONDS, 2, cause="compute_hang")

    asyncio.run(main())
    assert scene.incidents.folder.read("f1").finding.cause == "compute_hang"


def test_what_gets_worse_and_what_ends_is_written_at_once(scene):
    async def main():
        assert await scene.say(NOW, 2, severity="warning")
        assert await scene.say(NOW + 1, 2, severity="critical")
        for seconds in (2, 2 + RESOLVE_AFTER_SECONDS):
            scene.journal.settle("job", "stall", NOW + seconds)
        assert await scene.follow(NOW + 2 + RESOLVE_AFTER_SECONDS)
        assert not await scene.follow(NOW + 60)

    asyncio.run(main())
    assert scene.incidents.folder.read("f1").finding.resolved is not None


def test_stacks_stay_in_the_capsule_when_the_journal_drops_them(scene):
    async def main():
        await scene.say(NOW, 2, evidence={"stacks": {"2": {"stack": "main"}}})
        for seconds in (2, 2 + RESOLVE_AFTER_SECONDS):
            scene.journal.settle("job", "stall", NOW + seconds)
        await scene.follow(NOW + 5)
        await scene.follow(NOW + 60)

    asyncio.run(main())
    assert scene.journal.find("f1").evidence == evidence(dropped=["stacks"])
    assert scene.incidents.folder.read("f1").finding.evidence.stacks == {"2": RankStack(stack="main")}
