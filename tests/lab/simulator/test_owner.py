"""Tests of the ends of jobs that nothing tells from an end by the owner: zmon is quiet about these, and no others."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from lab.simulator.composition import Shape, Strike
from lab.simulator.owner import looks_like_the_owners_end
from tests.lab.simulator.build import world_after

TWO_HOSTS = Shape(ranks=2, hosts=2, launcher="mpirun", step_seconds=0.25, noise=0.02, senders_known=False)
ONE_HOST = replace(TWO_HOSTS, hosts=1, launcher="torchrun", handles_term=True)
SECONDS = 40.0  # the fault has struck, and all ranks have ended


def ended(fault, shape):
    """Return a job that this fault of rank 1 has ended; a signal to the ranks is SIGTERM."""
    return world_after(SECONDS, Strike(fault, 1, place="forward", to="ranks", signal="SIGTERM"), shape=shape)


def agents(*answers, began=0.0):
    """Return an agent for each host; each of them answers or not."""
    return [SimpleNamespace(began=began, reachable=answer) for answer in answers]


@pytest.mark.parametrize(
    ("fault", "shape", "began", "expected"),
    [
        pytest.param("cancel", TWO_HOSTS, 0.0, True, id="the owner"),
        pytest.param("term", replace(TWO_HOSTS, device="cuda"), 0.0, True, id="mpirun ends the rank of the other host"),
        pytest.param(
            "term", replace(TWO_HOSTS, device="cuda", senders_known=True), 0.0, False, id="the senders are known"
        ),
        pytest.param(
            "term", replace(TWO_HOSTS, device="cuda", launcher="none"), 0.0, False, id="the other rank has no signal"
        ),
        pytest.param("term", replace(ONE_HOST, device="cuda"), 0.0, True, id="handlers hide the order"),
        pytest.param("kill", ONE_HOST, 0.0, False, id="a rank is killed"),
        pytest.param("raise", ONE_HOST, 0.0, False, id="a rank raises"),
        pytest.param("launcher_dies", ONE_HOST, 0.0, False, id="the launcher is killed"),
        pytest.param("launcher_dies", ONE_HOST, 60.0, True, id="the launcher is killed before its agent begins"),
        pytest.param(
            "launcher_dies",
            replace(ONE_HOST, senders_known=True, wraps=True),
            60.0,
            True,
            id="the same, and the program wraps the exception of its handler",
        ),
    ],
)
def test_end_that_looks_like_the_owners(fault, shape, began, expected):
    world = ended(fault, shape)
    assert looks_like_the_owners_end(world, agents(*[True] * shape.hosts, began=began)) is expected


@pytest.mark.parametrize("reachable", [False, True])
def test_rank_of_a_host_that_does_not_answer_shows_nothing(reachable):
    shape = replace(TWO_HOSTS, device="cuda", launcher="none")  # the other rank has no signal
    world = ended("term", shape)
    assert looks_like_the_owners_end(world, agents(reachable, True)) is not reachable
    assert not looks_like_the_owners_end(world, agents(False, False))


def test_exits_with_code_0_look_like_the_owners_end_if_all_ranks_do_so():
    strikes = tuple(Strike("exit_zero", rank, place="forward") for rank in (0, 1))
    for count in (1, 2):
        world = world_after(SECONDS, *strikes[:count], shape=TWO_HOSTS)
        assert looks_like_the_owners_end(world, agents(True, True)) is (count == 2)


@pytest.mark.parametrize(
    "changes",
    [{"handles_term": False}, {"handles_term": True}, {"device": "cpu"}],
    ids=["without a handler", "with a handler", "connections break before the handlers run"],
)
def test_every_end_by_the_owner_looks_like_one(changes):
    shape = replace(ONE_HOST, ranks=8, **{"device": "cuda"} | changes)
    strike = Strike("cancel", 1, place="collective", to="ranks", signal="SIGTERM")
    worlds = [world_after(SECONDS, strike, shape=shape, seed=seed) for seed in range(20)]
    assert all(looks_like_the_owners_end(world, agents(True)) for world in worlds)
