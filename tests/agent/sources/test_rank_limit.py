"""Tests of the limit on ranks: users share it fairly, living ranks come first, and all that is left out is counted."""

import os

import pytest

from tests.boxes import Box
from tests.hostile.users import ANN, BOB, give, needs_root
from zmon.agent.sources import box_listing, rank_limit
from zmon.agent.sources.boxes import Boxes
from zmon.agent.sources.rank_limit import shares


def test_users_who_want_little_get_all_and_others_share_the_rest():
    assert shares({"ann": 8, "bob": 1000, "cy": 600}, 512) == {"ann": 8, "bob": 252, "cy": 252}
    assert shares({"ann": 8, "bob": 16}, 512) == {"ann": 8, "bob": 16}
    assert shares({}, 512) == {}
    assert sum(shares(dict.fromkeys(map(str, range(1000)), 3), 512).values()) == 512


@pytest.fixture
def start(places, stand_in, clock):
    """Return a function that makes boxes of a user, which one process holds; it returns the process."""

    def make(owner, ranks):
        process = stand_in()
        give(places.in_shm(owner), os.geteuid())  # only its owner can add a box
        for rank in ranks:
            identity = {"rank": rank, "pid": process.pid, "world_size": 100, "job_id": f"job-{owner}"}
            Box(places.in_shm(owner), clock, identity, process)
        give(places.in_shm(owner), owner)
        return process

    return make


@pytest.fixture
def boxes(places, clock, monkeypatch):
    """Return the boxes of all users, as an agent reads them: at most those of 8 living and 8 dead ranks."""
    monkeypatch.setattr(rank_limit, "MAX_RANKS", 8)
    monkeypatch.setattr(rank_limit, "MAX_DEAD", 8)
    return Boxes(None, "node-a", clock=clock, places=places)


def ranks_of(boxes, owner):
    """Return the ranks of a user that the agent reports."""
    return sorted(state.rank for _, state in boxes.ranks() if state.owner == owner)


@needs_root
def test_user_with_many_ranks_takes_no_place_of_another_user(boxes, start):
    start(ANN, range(12))
    boxes.scan()
    assert len(ranks_of(boxes, ANN)) == 8
    start(BOB, range(3))
    boxes.scan()
    assert (len(ranks_of(boxes, ANN)), ranks_of(boxes, BOB)) == (5, [0, 1, 2])
    assert f"7 boxes of uid {ANN}: an agent watches at most 8 ranks of a node" in str(boxes.read().dropped)
    assert f"uid {BOB}" not in str(boxes.read().dropped)


@needs_root
def test_dead_ranks_take_no_place_of_living_ones(boxes, start):
    dead = start(ANN, range(6))
    boxes.scan()
    dead.end()
    boxes.scan()
    start(ANN, range(20, 28))
    boxes.scan()
    assert ranks_of(boxes, ANN) == [*range(6), *range(20, 28)]


@needs_root
def test_dead_ranks_without_a_place_are_deleted_once_others_are(boxes, start, clock, places):
    start(ANN, range(8)).end()
    start(ANN, range(20, 28)).end()
    for _ in range(3):
        boxes.scan()
    assert "8 boxes of uid" in str(boxes.read().dropped)
    for _ in range(2):
        clock.sleep(1000)
        boxes.prune()
        boxes.scan()
        boxes.scan()  # this scan opens the boxes for which there is room again
    assert list(places.in_shm(ANN).iterdir()) == []


@needs_root
def test_user_with_too_many_files_hides_no_other_user(boxes, start, places, monkeypatch):
    monkeypatch.setattr(box_listing, "MAX_ENTRIES", 50)
    folder = places.in_shm(BOB) / "job/0"
    folder.mkdir(parents=True)
    for number in range(200):
        (folder / f"file-{number}").touch()
    give(places.in_shm(BOB), BOB)
    start(ANN, range(2))
    boxes.scan()
    assert ranks_of(boxes, ANN) == [0, 1]
    assert f"uid {BOB} has more than 50 files" in str(boxes.read().dropped)
