"""What a silenced detector has open: it stays as it is during a stall, and resolves where somebody is named for it."""

from dataclasses import dataclass, field

import pytest

from tests.build import JOB, NOW, finding, rank_state, snapshot
from zmon.hub import Hub, HubConfig
from zmon.hub.journal import RESOLVE_AFTER_SECONDS
from zmon.schema.finding import Finding


@dataclass
class Scripted:
    """A detector that says what a test wants."""

    name: str
    verdicts: tuple[Finding, ...] = ()
    separate: bool = False
    causes: tuple[str, ...] = field(default=())

    def sees(self, snapshot, finding):
        return True

    def inert(self, snapshot):
        return None

    def detect(self, snapshot):
        return self.verdicts

    def say(self, severity="warning"):
        self.verdicts = (finding(id=f"of{self.name}", detector=self.name, severity=severity),)


@pytest.fixture
def scripted():
    return {name: Scripted(name) for name in ("stall", "straggler", "imbalance", "slowdown")}


@pytest.fixture
def active(tmp_path, scripted):
    """Two passes so far apart that what is silent resolves; the ids that are active then."""
    hub = Hub(HubConfig(("http://node-a:9780",), tmp_path, tuple(scripted.values())))
    passes = iter(range(100))

    def run():
        for _ in range(2):
            hub._conclude(snapshot(rank_state(0)), NOW + next(passes) * RESOLVE_AFTER_SECONDS)
        assert not hub.failed
        return {found.id for found in hub.journal.active() if found.job_id == JOB}

    return run


@pytest.mark.parametrize("open_one", ["straggler", "imbalance", "slowdown"])
def test_open_finding_stays_during_a_stall_and_after_it(active, scripted, open_one):
    scripted[open_one].say()
    assert active() == {f"of{open_one}"}
    scripted["stall"].say("critical")
    assert active() == {f"of{open_one}", "ofstall"}
    scripted["stall"].verdicts = ()
    assert active() == {f"of{open_one}"}


def test_nothing_about_steps_opens_during_a_stall(active, scripted):
    scripted["stall"].say("critical")
    scripted["straggler"].say()
    assert active() == {"ofstall"}


def test_slowdown_that_is_open_resolves_once_somebody_is_named(active, scripted):
    scripted["slowdown"].say()
    assert active() == {"ofslowdown"}
    scripted["straggler"].say("info")
    assert active() == {"ofslowdown", "ofstraggler"}
    scripted["straggler"].say()
    assert active() == {"ofstraggler"}


def test_what_is_over_during_a_stall_resolves(active, scripted):
    scripted["imbalance"].say()
    scripted["stall"].say("critical")
    active()
    scripted["imbalance"].verdicts = ()
    assert active() == {"ofstall"}
