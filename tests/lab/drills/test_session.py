"""Tests of sessions and soaks. A stage is built only if a drill needs it, at most once, and is closed afterwards."""

import itertools
from dataclasses import replace

import msgspec
import pytest

from lab.drills import session
from lab.drills.drill import Drill, Injection
from lab.drills.history import Head
from tests.lab.drills.build import ROW


class FakeStage:
    """A stage that is only built and closed."""

    def __init__(self, folder, policy):
        self.folder = folder
        self.policy = policy
        self.closed = False
        built.append(self)

    def close(self):
        self.closed = True


built = []


def fault(scene):
    return Injection(0.0)


DRILLS = (
    Drill("one", "", fault, ("rank_exited",)),
    Drill("two", "", fault, ("rank_exited",), unavailable=lambda: "it needs root"),
    Drill("far", "", fault, ("host_lost",), stage="hosts"),
    Drill("calm", "", fault),
)
FAR = Drill("far calm", "", fault, stage="hosts")
HEAD, ONCE = (Head(seed=7, repeats=repeats, drills=()) for repeats in (2, 1))


@pytest.fixture
def plays(monkeypatch):
    """The plays of the test, as (drill, repeat, stage)."""
    built.clear()
    calls = []

    def play(drill, stage, draw):
        calls.append((drill.name, draw.repeat, stage))
        return msgspec.structs.replace(ROW, drill=drill.name, repeat=draw.repeat, quiet=drill.quiet)

    monkeypatch.setattr(session, "play", play)
    monkeypatch.setattr(session, "STAGES", {"host": FakeStage, "hosts": FakeStage})
    return calls


def test_each_stage_is_built_once_and_closed(plays, tmp_path):
    session.play_all(DRILLS, HEAD, set(), tmp_path, lambda row: None)
    assert [(name, repeat) for name, repeat, _ in plays] == [
        ("one", 0), ("two", 0), ("calm", 0), ("one", 1), ("two", 1), ("calm", 1), ("far", 0), ("far", 1),
    ]  # fmt: skip
    assert [stage.folder.name for stage in built] == ["host", "hosts"]
    assert all(stage.closed for stage in built)


def test_finished_drills_are_not_played_again(plays, tmp_path):
    done = {("one", 0), ("far", 0)}
    session.play_all(DRILLS[:1] + DRILLS[2:3], HEAD, done, tmp_path, lambda row: None)
    assert [(name, repeat) for name, repeat, _ in plays] == [("one", 1), ("far", 1)]


def test_no_stage_is_built_for_unavailable_drills(plays, tmp_path):
    session.play_all(DRILLS[1:2], ONCE, set(), tmp_path, lambda row: None)
    assert plays == [("two", 0, None)]
    assert not built


def test_stage_is_closed_after_an_interrupt(plays, tmp_path):
    def interrupted(row):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        session.play_all(DRILLS, ONCE, set(), tmp_path, interrupted)
    assert [stage.closed for stage in built] == [True]


NO_FAR = replace(FAR, unavailable=lambda: "it needs root")


@pytest.mark.parametrize(
    ("drills", "seconds", "played", "took"),
    [
        pytest.param(DRILLS, 35, ["host calm"] * 3, 50, id="until its time is over"),
        pytest.param([*DRILLS, FAR], 95, ["host calm", "hosts far calm"], None, id="on every stage"),
        pytest.param([*DRILLS, NO_FAR], 35, ["host calm"] * 3, 50, id="no stage for unavailable drills"),
    ],
)
def test_soak_plays_quiet_drills(plays, tmp_path, monkeypatch, drills, seconds, played, took):
    monkeypatch.setattr(session.time, "monotonic", itertools.count(0, 10).__next__)
    lasted = session.soak(drills, seconds, HEAD, tmp_path, lambda row: None)
    names = [f"{stage.folder.name} {name}" for name, _, stage in plays]
    assert {*names} == {*played}
    assert took is None or (names, lasted) == (played, took)
    assert [stage.folder.name for stage in built] == sorted({name.split()[0] for name in played})
    assert all(stage.closed for stage in built)
