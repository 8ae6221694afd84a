"""Tests of the ranks past their lease: in training all ranks share the shortest lease that one of them has learned."""

import math

import pytest

from tests.build import rank_state, snapshot
from zmon.detectors.hangs import as_judged
from zmon.detectors.hangs.standstill import overdue_ranks
from zmon.job.lease import Leases
from zmon.schema.rank import RankState


def training(rank, lease, seconds=3.0, **changes):
    """Return a rank without a step for this time, as its agent judges it by this lease."""
    overdue = max(0.0, seconds - changes.get("unobserved_seconds", 0.0) - (lease or math.inf))
    times = {"step_seconds": seconds, "state_seconds": seconds, "overdue_seconds": overdue, "lease_seconds": lease}
    return rank_state(rank, **{"activity": "train", "steps": 300, "sequences": {"0": 300}, **times, **changes})


WORKER = {"steps": 0, "lease": Leases.init_seconds}  # of a parameter server: without an optimizer it has no steps
SUSPENDED = {"seconds": 60.0, "unobserved_seconds": 59.0}  # the agents were stopped for most of the time
OVERDUE = {
    "one has a long lease": ([{"lease": 2.0}, {"lease": 2.0}, {"lease": 40.0}], [0, 1, 2]),
    "all but one have a long lease": ([{"lease": 40.0}, {"lease": 40.0}, {"lease": 2.0}], [0, 1, 2]),
    "quiet within the shortest lease": ([{"lease": 4.0}, {"lease": 4.0}, {"lease": 40.0}], []),
    "no lease is known": ([{"lease": None}, {"lease": None}], []),
    "one is past the lease of its agent": ([{"lease": None, "overdue_seconds": 1.0}, {"lease": 40.0}], [0]),
    "one has taken few steps": ([{"lease": 40.0}, {"lease": 2.0, "steps": 140}], [1]),
    "one steps slowly": ([{"lease": 2.0}, {"lease": 40.0, "step_seconds_total": 90.0}], [0]),
    "one without steps takes part": ([{"lease": 2.0}, WORKER], [0, 1]),
    "quiet about one that takes no part": ([{"lease": 2.0}, {**WORKER, "sequences": {"0": 3}}], [0]),
    "quiet while agents observed less": ([{"lease": 2.0, **SUSPENDED}, {"lease": 2.0, "steps": 0, **SUSPENDED}], []),
}


@pytest.mark.parametrize(("ranks", "overdue"), OVERDUE.values(), ids=OVERDUE)
def test_ranks_in_training_share_the_shortest_lease(ranks, overdue):
    """A rank without a step for 3 s is overdue past the shortest lease of the ranks that have learned one."""
    states = [training(number, **rank) for number, rank in enumerate(ranks)]
    assert [r.rank for r in overdue_ranks(as_judged(snapshot(*states)).ranks)] == overdue


def test_overdue_ranks_of_a_large_job_do_not_slow_down_the_hub(monkeypatch):
    """Comparing 1,024 states pair by pair took 1.2 s of processor time in each pass of the hub."""
    monkeypatch.setattr(RankState, "__eq__", None)  # a comparison of two states raises
    states = [training(rank, 2.0, steps=300 * (rank % 2)) for rank in range(1024)]
    assert len(overdue_ranks(states)) == len(states)


def test_ranks_that_never_train_do_not_slow_down_the_hub(monkeypatch):
    """Half of 1,024 ranks generate batches: neither states nor pairs of ranks are compared."""
    monkeypatch.setattr(RankState, "__eq__", None)  # a comparison of two states raises
    generator = {"steps": 0, "activity": "init", "open_seconds": 60.0}
    states = [training(rank, 2.0, **(generator if rank % 2 else {})) for rank in range(1024)]
    assert [r.rank for r in as_judged(snapshot(*states)).ranks] == list(range(0, 1024, 2))
