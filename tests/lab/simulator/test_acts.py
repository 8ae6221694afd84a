"""Tests of acts in simulated plays: which a policy asks for, and which are wrong."""

import pytest

from lab.simulator.acts import blames
from lab.simulator.composition import Strike
from lab.simulator.observation import UNIX
from lab.simulator.session import line
from lab.simulator.truth import truth_of
from tests.lab.simulator.build import STRUCK, composed, played
from zmon.hub.acts import read_policy

POLICY = """
rules:
  - {name: frozen, causes: [rank_frozen], act: kill_culprit}
  - {name: exited, causes: [rank_exited], proofs: [lock], act: end_job}
"""


@pytest.fixture
def policy(tmp_path):
    (tmp_path / "policy.yaml").write_text(POLICY)
    return read_policy(tmp_path / "policy.yaml")


def test_frozen_rank_would_be_killed_once(policy):
    result = played(Strike("stop", 2, step=STRUCK), policy=policy)
    assert (result.result, result.num_acts, result.wrong_acts) == ("right", 1, ())


def test_act_on_a_rank_that_heals_is_wrong(policy):
    result = played(Strike("stop", 2, step=STRUCK, seconds=15.0), policy=policy)
    assert result.result == "wrong act"
    assert result.wrong_acts == ("kill_culprit of rank 2 for rank_frozen: it heals by itself",)
    assert "it heals by itself" in line(result)


@pytest.mark.parametrize("strike", ["pause", "cancel"])
def test_nothing_is_done_about_a_pause_or_an_end_by_the_owner(strike, policy):
    result = played(Strike(strike, 2, step=STRUCK, seconds=8.0 if strike == "pause" else None), policy=policy)
    assert (result.result, result.num_acts) == ("quiet", 0)


def test_without_a_policy_nothing_is_done():
    assert played(Strike("stop", 2, step=STRUCK)).num_acts == 0


def test_blame_is_for_loud_faults_at_the_time_of_the_hub():
    strikes = [Strike("stop", 2, seconds=6.0), Strike("kill", 1), Strike("cancel", 0)]
    truths = [truth_of(composed(strike), strike, 5.0, is_watched=True) for strike in strikes]
    assert [(blame.time, blame.ranks, blame.heals) for blame in blames(truths)] == [
        (UNIX + 5.0, {2}, True),
        (UNIX + 5.0, {1}, False),
    ]
