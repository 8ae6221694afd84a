"""Tests of the deletion of a dead rank's files by an agent that is root, while the user exchanges folders for links."""

import fcntl
import os
import socket

import pytest

from tests.hostile.users import ANN, BOB, give, needs_root
from zmon.agent.sources.box_removal import remove_rank
from zmon.schema.plan import PLAN_FILE

pytestmark = needs_root


@pytest.fixture
def box_of(tmp_path):
    """Return a function that makes the file of a user's box."""

    def make(uid):
        path = tmp_path / f"zmon-{uid}/job/0/rank-0.box"
        path.parent.mkdir(parents=True)
        path.write_bytes(b"box")
        give(tmp_path / f"zmon-{uid}", uid)
        return path

    return make


@pytest.mark.parametrize("depth", [0, 1, 2], ids=["attempt", "job", "root"])
def test_files_behind_a_link_of_another_user_are_kept(box_of, tmp_path, depth):
    box, foreign = box_of(BOB), box_of(ANN)
    inode, folder = box.stat().st_ino, box.parents[depth]
    folder.rename(tmp_path / "away")
    folder.symlink_to(foreign.parents[depth])
    os.chown(folder, BOB, -1, follow_symlinks=False)
    with pytest.raises(OSError, match=r"does not belong to uid|Not a directory|Too many levels"):
        remove_rank(box, inode, BOB, named_socket="", short_paths=tmp_path)
    assert foreign.exists()


def test_link_to_the_boxes_of_another_pod_of_the_same_user_is_not_followed(tmp_path):
    """Two pods may have the same user, so owners do not tell their folders apart."""
    boxes = [tmp_path / pod / str(ANN) / "job/0/rank-0.box" for pod in ("pod-a", "pod-b")]
    for box in boxes:
        box.parent.mkdir(parents=True)
    boxes[0].write_bytes(b"box")
    plan = boxes[1].with_name(PLAN_FILE)
    plan.touch()
    give(tmp_path, ANN)
    inode, folder = boxes[0].stat().st_ino, boxes[0].parents[2]
    folder.rename(tmp_path / "away")
    folder.symlink_to(boxes[1].parents[2])
    with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
        remove_rank(boxes[0], inode, ANN, named_socket="", short_paths=tmp_path)
    assert plan.exists()


@pytest.fixture
def bind_beside():
    """Return a function that binds a socket beside a box, by default one of root."""

    def bind(box, owner=0):
        path = box.with_suffix(".sock")
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
        os.chown(path, owner, -1)
        return path

    return bind


def test_socket_of_another_user_beside_the_box_is_kept(box_of, bind_beside, tmp_path):
    box = box_of(ANN)
    path = bind_beside(box)
    remove_rank(box, box.stat().st_ino, ANN, named_socket=str(path), short_paths=tmp_path)
    assert path.exists()
    assert not box.exists()


def test_box_of_a_rank_that_has_just_started_is_kept_with_its_socket(box_of, bind_beside, tmp_path):
    box = box_of(ANN)
    inode, path = box.stat().st_ino, bind_beside(box, ANN)
    new = box.with_name("new")
    new.touch()
    new.rename(box)
    remove_rank(box, inode, ANN, named_socket=str(path), short_paths=tmp_path)
    assert path.exists()
    assert box.exists()


def test_nothing_is_deleted_while_a_rank_publishes_its_box(box_of, tmp_path):
    box = box_of(ANN)
    folder = os.open(box.parent, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    with pytest.raises(BlockingIOError):
        remove_rank(box, box.stat().st_ino, ANN, named_socket="", short_paths=tmp_path)
    os.close(folder)
    assert box.exists()
