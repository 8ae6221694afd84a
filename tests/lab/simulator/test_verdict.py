"""Tests of the results that follow from the faults and the published findings of a play."""

import pytest

from lab.simulator.composition import Composition, Shape, Strike
from lab.simulator.truth import truth_of
from lab.simulator.verdict import Aftermath, Play, judge
from lab.simulator.watch import Published
from tests.build import finding

ALL_HOSTS = ("node-0", "node-1")


def result_of(what, **fields):
    """Return the result of one published finding about a fault of rank 2, in a job of four ranks on two hosts."""
    strike = Strike(what, 2)
    truth = truth_of(Composition(7, 0, Shape(hosts=2), (strike,)), strike, 10.0, is_watched=False)
    published = [Published(11.0, finding(severity="critical", **fields))]
    aftermath = Aftermath(is_moving=False, was_restarted=False)
    return judge(Play(7, 0, (), (), "none", "skipped"), [truth], published, 2, aftermath).result


@pytest.mark.parametrize(
    ("ranks", "hosts", "expected"),
    [
        pytest.param((2,), ("node-1",), "right", id="the culprit"),
        pytest.param((), ("node-1",), "right", id="the host of the culprit"),
        pytest.param((), ALL_HOSTS, "unknown", id="all hosts, which names nobody"),
        pytest.param((), (), "unknown", id="nobody"),
        pytest.param((1,), ("node-0",), "wrong name", id="another rank"),
        pytest.param((), ("node-0",), "wrong name", id="another host"),
    ],
)
def test_result_of_a_true_cause_depends_on_who_is_named(ranks, hosts, expected):
    assert result_of("no_rendezvous", cause="rendezvous_failed", ranks=ranks, hosts=hosts) == expected


@pytest.mark.parametrize(
    ("what", "cause"), [("reset", "connection_lost"), ("launcher_dies", "launcher_gone"), ("pair_cut", "network_stall")]
)
def test_fault_without_a_culprit_needs_no_name(what, cause):
    assert result_of(what, cause=cause, ranks=(), hosts=ALL_HOSTS) == "right"
