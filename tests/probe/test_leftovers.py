"""Tests of the sweep: a new rank deletes the files that dead ranks of its user left behind."""

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
    """Return the folder of short sockets; its own path is short enough for a socket."""
    return tmp_path_factory.mktemp("s")


@pytest.fixture
def root(tmp_path):
    """Return the directory of the user's boxes."""
    return tmp_path / "zmon-0"


@pytest.fixture
def left_box(root):
    """Return a function that makes the box, the plan and the socket of a rank.

    `start` returns the nanoseconds of the clock at which the rank began. All files are old unless `is_old` is False.
    """

    def make(rank=0, holder=None, start=lambda: 0, is_old=True):
        box = Box(root, Clock(start()), {"rank": rank}, holder)
        (box.path.parent / PLAN_FILE).touch()
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(box.path.with_suffix(".sock")))
        if is_old:
            make_old(root)
        return box

    return make


def make_old(folder):
    """Set the times of a folder, and of all in it, to a time before the grace period."""
    for parent, _, files in os.walk(folder, topdown=False):
        for name in (*files, ""):
            os.utime(os.path.join(parent, name), (LONG_AGO, LONG_AGO))  # noqa: PTH118


@pytest.mark.parametrize(
    "start", [lambda: 0, lambda: time.monotonic_ns() + 10**15], ids=["long ago", "before a reboot"]
)
def test_files_of_long_dead_ranks_are_deleted(left_box, root, sockets, start):
    left_box(0)
    left_box(1, start=start)
    sweep(root, sockets)
    assert list(root.iterdir()) == []


def give_to_another_user(box):
    """Make another user the owner of the job's folder."""
    os.chown(box.path.parents[1], BOB, -1)
    make_old(box.root)


def age_box(box):
    """Make the file of the box old, and nothing else in its folder."""
    os.utime(box.path, (LONG_AGO, LONG_AGO))


LEFT_ALONE = [  # the arguments of `left_box`, and a change before the sweep
    # The file of the box is old: writes to mapped memory do not change the time of a file.
    pytest.param({"start": lambda: time.monotonic_ns() - 60 * 10**9}, lambda _: None, id="died a minute ago"),
    pytest.param({"is_old": False}, age_box, id="something changed in its folder"),
    pytest.param({}, give_to_another_user, id="of another user", marks=needs_root),
]


@pytest.mark.parametrize(("arguments", "change"), LEFT_ALONE)
def test_box_is_left_alone(left_box, root, sockets, arguments, change):
    box = left_box(**arguments)
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
    dead, young, served = (sockets / f"zmon-{number}123456789abcdef.sock" for number in range(3))
    other = sockets / "docker.sock"
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
