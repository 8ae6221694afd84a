"""Boxes that are damaged, deleted, left behind or pruned: none hides the others, none costs for ever."""

import os
import signal
import socket
import struct

import pytest

from tests.boxes import Box
from tests.build import JOB
from zmon.agent.sources import rank_box
from zmon.agent.sources.boxes import Boxes
from zmon.box import layout
from zmon.schema.api import Suspicion

# -- damage ------------------------------------------------------------------------------------------------


STATES = range(layout.LIVE, layout.LIVE + 32, 8)


def damage_now(box):
    """All words of both states; again, and they are as they were."""
    for at in STATES:
        box.flip(at + 3)


@pytest.mark.parametrize("what", ["foreign", "truncated", "version", "damaged", "directory", "link"])
def test_damaged_box_is_reported_in_one_line_and_hides_no_other(boxes, live, tmp_path, what, states):
    good, bad = live(0), live(1)
    if what == "foreign":
        bad.overwrite(0, b"#!/bin/sh\n")
    elif what == "truncated":
        bad.path.write_bytes(bad.path.read_bytes()[:1000])
    elif what == "version":
        bad.overwrite(8, struct.pack("<I", 99))
    elif what == "damaged":
        damage_now(bad)
    else:
        bad.path.unlink()
        bad.path.mkdir() if what == "directory" else bad.path.symlink_to(good.path)
    assert list(states()) == [0]
    assert list(boxes.damaged) == [bad.path]
    line = boxes.damaged[bad.path]
    assert str(bad.path) in line
    assert "\n" not in line


def test_box_that_is_damaged_while_it_is_watched_is_left_aside(boxes, live, states):
    live(0)
    bad = live(1)
    assert len(states()) == 2
    damage_now(bad)
    assert list(states()) == [0]
    assert "its current state is damaged" in boxes.damaged[bad.path]


def test_box_that_only_looked_damaged_for_a_moment_is_not_lost(boxes, live, clock, states):
    """A look that is held up between the two copies can find both torn, a few times in a million."""
    box = live()
    states()
    damage_now(box)
    states()
    damage_now(box)
    clock.sleep(6)
    assert list(states()) == [0]
    assert boxes.damaged == {}


def test_damaged_box_is_forgotten_when_its_file_goes(boxes, live):
    bad = live()
    damage_now(bad)
    boxes.look()
    bad.path.unlink()
    boxes.look()
    assert boxes.damaged == {}


def test_box_directory_that_is_not_there_yet_is_empty(tmp_path):
    boxes = Boxes(tmp_path / "none", "node-a")
    assert boxes.look() == frozenset()
    assert list(boxes.ranks()) == []


# -- pruning -----------------------------------------------------------------------------------------------


def test_box_stays_for_its_grace_period_and_then_nothing_stays(boxes, live, clock, tmp_path):
    ranks = [live(0), live(1)]
    for box in ranks:
        bind(box.path.with_suffix(".sock"))
    boxes.look()
    for box in ranks:
        box.process.end()
    boxes.look()
    clock.sleep(899)
    boxes.prune()
    assert ranks[0].path.exists()
    clock.sleep(2)
    boxes.prune()
    assert list(tmp_path.iterdir()) == []
    assert list(boxes.ranks()) == []


def test_prune_spares_who_lives_and_the_dead_that_they_wait_for(boxes, live, clock):
    dead, alive = live(0), live(1)
    boxes.look()
    dead.process.end()
    boxes.look()
    clock.sleep(1000)
    boxes.prune()
    assert dead.path.exists()
    assert alive.path.exists()
    alive.process.end()
    boxes.look()
    clock.sleep(1000)
    boxes.prune()
    assert not dead.path.exists()


def test_prune_leaves_nothing_of_a_rank_that_died_while_it_made_its_box(boxes, live, clock, tmp_path):
    """Killed between `_create` and `publish` it leaves 3 MB of /dev/shm under a name that nobody looks at."""
    box = live()
    unfinished = box.path.with_name(".rank-1.box.4711")
    unfinished.write_bytes(b"\0" * 100)
    os.utime(unfinished, (0, 0))  # an old one: a rank may be starting here just now
    boxes.look()
    box.process.end()
    boxes.look()
    clock.sleep(1000)
    boxes.prune()
    assert list(tmp_path.iterdir()) == []


def bind(path):
    """A socket that nobody listens on any more."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
    return path


@pytest.fixture
def prune(tmp_path, live, clock):
    """Let a rank die whose box names that socket, and prune. Short paths lead to the directory `s`."""

    def run(named):
        boxes = Boxes(tmp_path, "node-a", clock=clock, short=tmp_path / "s")
        box = live(socket=str(named))
        boxes.look()
        box.process.end()
        boxes.look()
        clock.sleep(1000)
        boxes.prune()
        assert not box.path.exists()

    (tmp_path / "s").mkdir()
    return run


SHORT = "zmon-0123456789abcdef.sock"


def test_prune_removes_the_socket_that_the_box_names(prune, tmp_path):
    path = bind(tmp_path / "s" / SHORT)
    prune(path)
    assert not path.exists()


@pytest.mark.parametrize("name", ["docker.sock", "zmon-1234.sock", f"deeper/{SHORT}"])
def test_prune_spares_a_socket_that_is_no_ranks_whatever_the_box_says(prune, tmp_path, name):
    (tmp_path / "s/deeper").mkdir()
    path = bind(tmp_path / "s" / name)
    prune(path)
    prune(tmp_path / "s/deeper" / ".." / name)
    assert path.exists()


@pytest.mark.parametrize("kind", ["file", "link", "directory"])
def test_prune_spares_what_is_no_socket(prune, tmp_path, kind):
    path, precious = tmp_path / "s" / SHORT, tmp_path / "precious"
    precious.write_text("mine")
    {"file": path.touch, "link": lambda: path.symlink_to(precious), "directory": path.mkdir}[kind]()
    prune(path)
    assert path.is_symlink() or path.exists()
    assert precious.read_text() == "mine"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_prune_spares_a_socket_of_another_user(prune, tmp_path):
    path = bind(tmp_path / "s" / SHORT)
    os.chown(path, 1234, -1)
    prune(path)
    assert path.exists()


# -- left behind -----------------------------------------------------------------------------------------


def test_rank_that_moves_is_asked_of_the_kernel_once_a_second_and_one_that_does_not_at_every_look(
    boxes, live, clock, monkeypatch
):
    """Its state is a file in /proc, which costs more than the rest of a look; and who moves is not stopped."""
    asked = []
    monkeypatch.setattr(rank_box, "process_stat", lambda pid, proc: asked.append(pid))
    box = live()
    boxes.look()
    asked.clear()
    for _ in range(20):
        clock.sleep(0.1)
        box.steps(1, seconds=0.0001)
        boxes.look()
    assert len(asked) == 2
    asked.clear()
    for _ in range(20):
        clock.sleep(0.1)
        boxes.look()
    assert len(asked) == 20


def test_thousand_boxes_of_ranks_that_are_long_dead_hold_no_file_open_and_are_read_once(tmp_path, clock, monkeypatch):
    """A job that crashes and restarts for a quarter of an hour leaves so many."""
    first = Box(tmp_path, clock, {"world_size": 1000})
    first.steps(3)
    content = first.path.read_bytes()
    for rank in range(1, 1000):
        path = first.path.with_name(f"rank-{rank}.box")
        path.touch()
        os.truncate(path, len(content))
        with path.open("r+b") as file:
            file.write(content[: layout.RING + 10 * layout.BOUNDARY_SIZE])
    clock.sleep(120)
    boxes = Boxes(tmp_path, "node-a", clock=clock)
    boxes.look()
    assert boxes.damaged == {}
    assert [box.reader for box in boxes._open.values() if box.reader is not None] == []
    reads = []
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda *arguments: reads.append(arguments) or pread(*arguments))
    assert boxes.look() == frozenset()
    assert list(boxes.ranks()) == []
    assert reads == []
    clock.sleep(900)
    boxes.prune()
    assert list(tmp_path.iterdir()) == []


def test_rank_that_died_is_told_of_as_it_was_when_its_file_is_let_go(boxes, live, clock, states):
    box, peer = live(0), live(1)
    box.steps(5)
    boxes.look()
    box.steps(2)
    box.process.end(signal.SIGKILL)
    boxes.look()
    before = states()[0]
    clock.sleep(70)
    assert boxes.files() == {box.path: box.path.stat().st_ino, peer.path: peer.path.stat().st_ino}
    after = states()[0]
    assert boxes.files() == {peer.path: peer.path.stat().st_ino}
    assert (after.steps, after.exit_status, after.gone_seconds) == (7, "signal SIGKILL", pytest.approx(70, abs=0.1))
    assert (after.measures, after.device) == (before.measures, before.device)


def test_box_that_is_deleted_under_a_rank_is_watched_on_and_forgotten_after_its_end(boxes, live, clock, states):
    box = live()
    boxes.look()
    box.path.unlink()
    box.steps(3)
    assert states()[0].steps == 3
    box.process.end()
    assert boxes.look() == {Suspicion(JOB, 0, "exited")}
    clock.sleep(70)
    assert states() == {}


def test_box_of_a_rank_that_died_while_no_agent_looked_is_kept_for_whoever_comes_to_look(tmp_path, live, clock):
    """It had hung for half an hour before; its last words are the only ones."""
    box = live()
    box.steps(3)
    clock.sleep(1800)
    box.process.end()
    boxes = Boxes(tmp_path, "node-a", clock=clock)
    boxes.read()
    assert box.path.exists()
    clock.sleep(901)
    boxes.look()
    boxes.prune()
    assert not box.path.exists()


def test_boxes_of_earlier_attempts_go_while_the_launchers_last_one_lives(boxes, live, clock):
    before, now = live(attempt=0), live(attempt=1)
    before.process.end()
    boxes.look()
    clock.sleep(901)
    boxes.look()
    boxes.prune()
    assert (before.path.exists(), now.path.exists()) == (False, True)
