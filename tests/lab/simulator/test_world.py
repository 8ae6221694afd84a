"""Tests of the simulated ranks: what happens to the others when a fault strikes one of them."""

from dataclasses import replace

import pytest

from lab.simulator.composition import KINDS, Strike, compose
from lab.simulator.world import World
from tests.lab.simulator.build import SHAPE, world_after


def world(*strikes, seconds=30.0, **changes):
    """Return a job of four ranks after half a minute."""
    return world_after(seconds, *strikes, shape=replace(SHAPE, **changes))


def statuses(made):
    return [rank.ending.status if rank.ending else None for rank in made.launches[0]]


def types(made):
    return [rank.ending.words.type if rank.ending and rank.ending.words else None for rank in made.launches[0]]


def test_healthy_job_trains_in_step():
    steps = [rank.now.step for rank in world().ranks]
    assert min(steps) > 60
    assert max(steps) - min(steps) <= 1


def test_same_composition_is_the_same_play():
    first, second = (World(compose(3, 8)) for _ in range(2))
    first.run(40.0)
    second.run(40.0)
    assert [rank.history for rank in first.ranks] == [rank.history for rank in second.ranks]


def test_seed_goes_through_all_faults():
    assert {compose(1, number).strikes[0].what for number in range(len(KINDS))} == set(KINDS)


KILL, TERM, ABORT, ERROR = "signal SIGKILL", "signal SIGTERM", "signal SIGABRT", "exit code 1"


@pytest.mark.parametrize(
    ("strike", "changes", "expected"),
    [
        pytest.param(
            Strike("kill", 2, place="forward"), {}, [ERROR, ERROR, KILL, ERROR], id="peers die of their connections"
        ),
        pytest.param(Strike("kill", 2), {"device": "cuda"}, [None, None, KILL, None], id="peers on GPUs wait"),
        pytest.param(Strike("cancel", 0), {"launcher": "torchrun"}, [TERM] * 4, id="owner ends all ranks"),
        pytest.param(
            Strike("term_host", 0), {"hosts": 2}, [TERM, TERM, ERROR, ERROR], id="peers of a host that has a signal"
        ),
        pytest.param(
            Strike("stop", 2), {"device": "cuda", "watchdog_seconds": 10.0}, [ABORT, ABORT, None, ABORT],
            id="watchdog ends ranks that wait for a stopped one",
        ),
    ],
)  # fmt: skip
def test_ranks_end_after_a_strike(strike, changes, expected):
    made = world(strike, **{"launcher": "none"} | changes)
    assert statuses(made) == expected
    exceptions = {type_ for type_, end in zip(types(made), expected, strict=True) if end == ERROR}
    assert exceptions <= {"builtins.RuntimeError"}


def test_torchrun_ends_the_others_and_starts_them_again():
    made = world(Strike("raise", 1), max_restarts=1, seconds=60.0)
    assert len(made.launches) == 2
    assert all(rank.ended is None for rank in made.ranks)
    assert made.ranks[0].now.step > 20


def test_stopped_rank_holds_the_others_until_it_goes_on():
    made = world(Strike("stop", 0, step=20, seconds=5.0), seconds=12.0)
    step = made.ranks[3].now.step
    made.run(40.0)
    assert step <= 22
    assert made.ranks[3].now.step > 60


@pytest.mark.parametrize("model", ["ddp", "dlrm", "hybrid"])
def test_skipped_collective_of_another_kind_stops_the_job(model):
    made = world(Strike("skip", 1, place="collective", op=-2), model=model)
    assert made.is_still
    assert {rank.now.step for rank in made.ranks} <= {20, 21}


def test_skipped_collective_pairs_with_an_equal_one():
    made = world(Strike("skip", 1, place="collective", op=0), model="dlrm")
    assert made.is_still  # in the end the rank is in another kind than the others
    assert made.ranks[1].now.inside.op == "all_reduce"


def test_other_size_aborts_the_others():
    made = world(Strike("size", 1, place="collective"), launcher="none")
    assert "signal SIGABRT" in statuses(made)
    assert statuses(made)[1] != "signal SIGABRT"


def test_other_size_aborts_nobody_while_the_link_is_cut():
    cut = Strike("link_cut", 3, seconds=10.0)
    made = world(cut, Strike("size", 1, place="collective"), hosts=2, launcher="none", seconds=15.0)
    assert statuses(made) == [None] * 4
    made.run(60.0)
    assert "signal SIGABRT" in statuses(made)


def test_cut_link_holds_the_job_until_it_heals():
    made = world(Strike("link_cut", 3, seconds=10.0), hosts=2, seconds=60.0)
    assert min(rank.now.step for rank in made.ranks) > 60
    assert max(step.duration for step in made.ranks[0].steps) == pytest.approx(10.0, abs=1.0)


def test_paused_host_answers_nobody_and_goes_on_afterwards():
    made = world(Strike("host_pause", 0, step=40, seconds=6.0), hosts=2, seconds=15.0)
    assert [rank.stopped_since(made.time) is not None for rank in made.ranks] == [True, True, False, False]
    assert made.network.lost.keys() == {0}
    made.run(40.0)
    assert not made.network.lost
    assert all(rank.ended is None and rank.now.step > 80 for rank in made.ranks)


def test_second_fault_strikes_some_seconds_after_the_first_although_nothing_moves():
    made = world(Strike("block", 0), Strike("kill", 1, after=5.0), launcher="none")
    first, second = made.struck
    assert second.time == pytest.approx(first.time + 5.0)
    gone = world(Strike("kill", 1), Strike("stop", 1, after=5.0), launcher="none")
    assert len(gone.struck) == 1  # the second one cannot strike a rank that is gone


def test_last_words_are_those_of_the_fault():
    reset = world(Strike("reset", 1, peer=3), launcher="none")
    assert all("reset by peer" in rank.ending.words.message for rank in (reset.ranks[1], reset.ranks[3]))
    everywhere = world(Strike("raise_all", 0), launcher="none")
    assert (len(everywhere.struck), types(everywhere)) == (1, ["builtins.ValueError"] * 4)  # it is recorded once
    alone = world(Strike("no_rendezvous", 2, step=0, place="init"))
    assert types(alone)[2] == "torch.distributed.DistNetworkError"
    assert not alone.ranks[0].steps  # it never trains
    hung = world(Strike("raise_hung", 1))  # in its exit
    assert hung.ranks[1].words_at is not None
    assert statuses(hung)[0] is None


def test_stages_do_different_work_in_step():
    made = world(model="stages")
    assert [set(rank.counts) for rank in made.ranks] == [{"first", "0"}] * 2 + [{"last", "0"}] * 2
    assert min(rank.now.step for rank in made.ranks) > 60
