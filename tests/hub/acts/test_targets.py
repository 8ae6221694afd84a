"""Tests of whom an intent is about: the living ranks at fault, or one rank for each launcher."""

from dataclasses import replace

import pytest

from tests.build import NOW, killed, rank_state, snapshot, waiting
from tests.detectors.stalls import stopped
from tests.hub.acts.builds import PROVEN, of_launch, rule, stalled
from zmon.hub.acts.intents import make_intent

TWO_CULPRITS = replace(PROVEN, ranks=(2, 3), hosts=("node-a", "node-a"))
ONE_HAS_ENDED = snapshot(*of_launch([stopped(2), killed(3), *(waiting(rank, 2.0) for rank in (0, 1))]))
BOTH_HAVE_ENDED = snapshot(*of_launch([killed(2), killed(3), *(waiting(rank, 2.0) for rank in (0, 1))]))
ALL_HAVE_ENDED = snapshot(*of_launch([killed(rank) for rank in range(4)]))
TWO_HOSTS = snapshot(
    *of_launch([rank_state(rank) for rank in (0, 1)]), *of_launch([rank_state(rank, host="node-b") for rank in (2, 3)])
)

TARGETS = {
    "the culprit": ("kill_culprit", PROVEN, stalled(), (2,), ("uid 2",)),
    "both culprits": ("kill_culprit", TWO_CULPRITS, stalled(), (2, 3), ("uid 2", "uid 3")),
    "the culprit that lives": ("kill_culprit", TWO_CULPRITS, ONE_HAS_ENDED, (2,), ("uid 2",)),
    "nobody without a culprit": ("kill_culprit", replace(PROVEN, ranks=()), stalled(), (), ()),
    "the launcher of a job": ("end_job", PROVEN, stalled(), (2,), ("uid 0",)),
    "the launchers of all hosts": ("end_job", PROVEN, TWO_HOSTS, (2,), ("uid 0", "uid 2")),
    "a job that has ended": ("stop_restarts", PROVEN, ALL_HAVE_ENDED, (2,), ("uid 0",)),
    "evidence of the culprit": ("capture", PROVEN, stalled(), (2,), ()),
}


@pytest.mark.parametrize(("act", "finding", "scene", "ranks", "uids"), TARGETS.values(), ids=TARGETS)
def test_intent_has_the_ranks_that_its_act_is_about(act, finding, scene, ranks, uids):
    made = make_intent(rule(act=act), finding, scene, NOW)
    assert (made.ranks, tuple(sorted(made.run_uids))) == (ranks, uids)


@pytest.mark.parametrize(
    ("act", "scene"), [("kill_culprit", BOTH_HAVE_ENDED), ("kill_culprit", ALL_HAVE_ENDED), ("end_job", ALL_HAVE_ENDED)]
)
def test_nothing_is_intended_about_what_has_ended(act, scene):
    assert make_intent(rule(act=act), TWO_CULPRITS, scene, NOW) is None
