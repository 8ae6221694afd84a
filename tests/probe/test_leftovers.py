"""Tests of the deletion of what dead ranks of this user left, by the next rank of the user."""

import fcntl
import os
import socket
import time

import pytest

from tests.boxes import Box, Clock
from tests.hostile.users import BOB, needs_root
from zmon.box.rank_files import GRACE_SECONDS
from zmon.probe import leftovers
from zmon.probe.leftovers import sweep
from zmon.schema.plan import PLAN_FILE

LONG_AGO = time.time() - GRACE_SECONDS - 60


@pytest.fixture
def sockets(tmp_path_factory):
    """The folder of short socket paths."""
    return tmp_path_factory.mktemp("s")


@pytest.fixture
def root(tmp_path):
    return tmp_path / "zmon-0"


@pytest.fixture
def left_box(root):
    """Return a function that makes the box of a rank; all its files are old unless `age` is False."""

    def make(rank=0, holder=None, since=int, age=True):
        box = Box(root, Clock(since()), {"rank": rank}, holder)
        (box.path.parent / PLAN_FILE).touch()
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(box.path.with_suffix(".sock")))
        if age:
            make_old(root)
        return box

    return make


def make_old(folder):
    for parent, _, files in os.walk(folder, topdown=False):
        for name in (*files, ""):
            os.utime(os.path.join(parent, name), (LONG_AGO, LONG_AGO))  # noqa: PTH118


@pytest.mark.parametrize("since", [int, lambda: time.monotonic_ns() + 10**15], ids=["long ago", "before a reboot"])
def test_files_of_long_dead_ranks_are_deleted(left_box, root, sockets, since):
    left_box(0)
    left_box(1, since=since)
    sweep(root, sockets)
    assert list(root.iterdir()) == []


def of_another_user(box):
    os.chown(box.path.parents[1], BOB, -1)
    make_old(box.root)


# What is left to the agent or to other ranks.
LEFT_ALONE = {
    # The box itself is old: writes to mapped memory leave its time alone.
    "died a moment ago": ({"since": lambda: time.monotonic_ns() - 60_000_000_000}, lambda box: None),
    "something changed in its folder": ({"age": False}, lambda box: os.utime(box.path, (LONG_AGO, LONG_AGO))),
    "of another user": ({}, of_another_user),
}


@needs_root
@pytest.mark.parametrize(("made", "change"), LEFT_ALONE.values(), ids=LEFT_ALONE)
def test_box_is_left_alone(left_box, root, sockets, made, change):
    box = left_box(**made)
    change(box)
    sweep(root, sockets)
    assert box.path.exists()


def test_launch_with_a_living_rank_is_left_alone(left_box, root, sockets, stand_in):
    dead, alive = left_box(0), left_box(1, stand_in())
    sweep(root, sockets)
    assert dead.path.exists()
    assert alive.path.exists()


def test_folder_whose_lock_a_starting_rank_holds_is_left_alone(left_box, root, sockets):
    box = left_box()
    folder = os.open(box.path.parent, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    sweep(root, sockets)
    assert box.path.exists()
    os.close(folder)
    sweep(root, sockets)
    assert list(root.iterdir()) == []


def test_box_that_a_rank_begins_during_the_sweep_is_kept(left_box, root, sockets, monkeypatch):
    box, is_long_dead = left_box(), leftovers._is_long_dead
    begun = box.path.with_name(".rank-1.box.4711.0a1b2c3d")

    def look(path):
        begun.touch()
        os.utime(begun, (LONG_AGO, LONG_AGO))  # only the sweep's own listing can save it
        return is_long_dead(path)

    monkeypatch.setattr(leftovers, "_is_long_dead", look)
    sweep(root, sockets)
    assert not box.path.exists()
    assert begun.exists()


def test_short_socket_of_a_killed_rank_is_deleted(root, sockets):
    dead, young, served, other = (sockets / name for name in (
        "zmon-0123456789abcdef.sock", "zmon-1123456789abcdef.sock", "zmon-2123456789abcdef.sock", "docker.sock",
    ))  # fmt: skip
    for path in (dead, young, other):
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(served))
        server.listen()
        for path in (dead, served, other):
            os.utime(path, (LONG_AGO, LONG_AGO))
        sweep(root, sockets)
    assert sorted(path.name for path in sockets.iterdir()) == sorted(path.name for path in (young, served, other))


def test_missing_directories_are_no_error(tmp_path):
    sweep(tmp_path / "none", tmp_path / "no")
