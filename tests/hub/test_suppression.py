"""Tests of the open findings of a suppressed detector: a stall keeps them open, an explanation resolves them."""

from dataclasses import dataclass, field

import pytest

from tests.build import NOW, finding, rank_state, snapshot
from zmon.hub import Hub, HubConfig
from zmon.hub.journal import RESOLVE_AFTER_SECONDS
from zmon.schema.finding import Finding


@dataclass
class Scripted:
    """A detector that returns scripted findings."""

    name: str
    findings: tuple[Finding, ...] = ()
    separate: bool = False
    causes: tuple[str, ...] = field(default=())

    def can_resolve(self, snapshot, finding):
        """Return True: the ranks of all findings are watched."""
        return True

    def inert_reason(self, snapshot):
        """Return None: the detector has all that it needs."""

    def detect(self, snapshot):
        """Return the scripted findings."""
        return self.findings

    def report(self, severity="warning"):
        """Report one finding from the next pass on."""
        self.findings = (finding(id=self.name, detector=self.name, severity=severity),)


@pytest.fixture
def scripted():
    """Detectors without findings, by name."""
    return {name: Scripted(name) for name in ("stall", "straggler", "imbalance", "slowdown")}


@pytest.fixture
def active(tmp_path, scripted):
    """Return a function that makes two passes and returns the detectors whose findings are active then.

    The passes are far enough apart to resolve findings.
    """
    hub = Hub(HubConfig(("http://node-a:9780",), tmp_path, tuple(scripted.values())))
    passes = iter(range(100))

    def run():
        for _ in range(2):
            hub.judge.run_detectors(snapshot(rank_state(0)), NOW + next(passes) * RESOLVE_AFTER_SECONDS)
        assert not hub.errors.texts
        return {active.detector for active in hub.journal.active()}

    return run


@pytest.mark.parametrize("name", ["straggler", "imbalance", "slowdown"])
def test_open_finding_stays_during_and_after_a_stall(active, scripted, name):
    scripted[name].report()
    assert active() == {name}
    scripted["stall"].report("critical")
    assert active() == {name, "stall"}
    scripted["stall"].findings = ()
    assert active() == {name}


def test_open_slowdown_resolves_when_a_straggler_is_reported(active, scripted):
    scripted["slowdown"].report()
    assert active() == {"slowdown"}
    scripted["straggler"].report("info")
    assert active() == {"slowdown", "straggler"}
    scripted["straggler"].report()
    assert active() == {"straggler"}


def test_finding_that_ends_during_a_stall_resolves(active, scripted):
    scripted["imbalance"].report()
    scripted["stall"].report("critical")
    active()
    scripted["imbalance"].findings = ()
    assert active() == {"stall"}
