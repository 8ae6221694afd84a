"""Tests of the files of boxes: damaged, deleted, abandoned and pruned ones."""

import errno
import os
import signal
import socket
from pathlib import Path

import pytest

from tests.agent.agent_client import failing_at
from tests.boxes import Box
from tests.build import JOB
from zmon.agent.sources import process_table
from zmon.agent.sources.boxes import Boxes
from zmon.box.versions import CURRENT
from zmon.schema.api import Suspicion

GRACE_SECONDS = 900  # for which the files of a dead rank are kept
NEWS_SECONDS = 60  # for which a dead rank is news; its box is closed then

# -- damage ------------------------------------------------------------------------------------------------

STATE_WORDS = range(CURRENT.live, CURRENT.live + 32, 8)  # the offsets of the words of both state slots


def toggle_damage(box):
    """Damage all words of both state slots; a second call repairs them."""
    for offset in STATE_WORDS:
        box.flip(offset + 3)  # any byte of the word


DAMAGES = {  # each gets the box and an intact one
    "foreign": lambda box, _: box.overwrite(0, b"#!/bin/sh\n"),
    "damaged": lambda box, _: toggle_damage(box),
    "directory": lambda box, _: (box.path.unlink(), box.path.mkdir()),
    "link": lambda box, intact: (box.path.unlink(), box.path.symlink_to(intact.path)),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damaged_box_is_reported_in_a_single_line_and_hides_no_other(boxes, make_live_box, damage, scan_states):
    intact, bad = make_live_box(0), make_live_box(1)
    damage(bad, intact)
    assert list(scan_states()) == [0]
    assert list(boxes.damaged) == [bad.path]
    line = boxes.damaged[bad.path]
    assert str(bad.path) in line
    assert "\n" not in line


def test_box_damaged_after_the_first_scan_is_no_rank_until_it_is_whole_again(boxes, make_live_box, clock, scan_states):
    """A scan that is interrupted between two reads may see both slots as damaged, a few times in a million."""
    make_live_box(0)
    bad = make_live_box(1)
    assert len(scan_states()) == 2
    toggle_damage(bad)
    assert list(scan_states()) == [0]
    assert "its current state is damaged" in boxes.damaged[bad.path]
    toggle_damage(bad)
    clock.sleep(6)  # a damaged box is read again after 5 s
    assert sorted(scan_states()) == [0, 1]
    assert boxes.damaged == {}
    toggle_damage(bad)
    boxes.scan()
    bad.path.unlink()
    boxes.scan()
    assert boxes.damaged == {}


def test_folder_that_cannot_be_listed_is_reported_and_hides_no_other(make_live_box, boxes, tmp_path, monkeypatch):
    make_live_box()
    (tmp_path / "foreign/0").mkdir(parents=True)
    denied = PermissionError(errno.EACCES, "Permission denied")
    monkeypatch.setattr(os, "scandir", failing_at(os.scandir, "foreign", denied))
    assert boxes.read().dropped == (f"cannot read {tmp_path}/foreign: Permission denied",)
    assert len(list(boxes.ranks())) == 1


def test_missing_box_directory_counts_as_empty(tmp_path):
    boxes = Boxes(tmp_path / "none", "node-a")
    assert boxes.scan() == frozenset()
    assert list(boxes.ranks()) == []


# -- pruning -----------------------------------------------------------------------------------------------


def end(boxes, *ranks):
    """End ranks that an agent watches; it sees their end."""
    boxes.scan()
    for rank in ranks:
        rank.holder.end()
    boxes.scan()


def test_box_and_socket_are_deleted_after_the_grace_period(boxes, make_live_box, clock, tmp_path):
    """A rank killed between `_create` and `publish` also leaves 3 MB of /dev/shm under a name that no scan reads."""
    ranks = [make_live_box(0), make_live_box(1)]
    for box in ranks:
        bind_unused_socket(box.path.with_suffix(".sock"))
    unfinished = ranks[0].path.with_name(".rank-2.box.4711")
    unfinished.write_bytes(b"\0" * 100)
    os.utime(unfinished, (0, 0))  # an old file, because a new file may belong to a rank that is just starting
    end(boxes, *ranks)
    clock.sleep(GRACE_SECONDS - 1)
    boxes.prune()
    assert ranks[0].path.exists()
    clock.sleep(2)
    boxes.prune()
    assert list(tmp_path.iterdir()) == []
    assert list(boxes.ranks()) == []


def test_prune_keeps_boxes_of_a_launch_with_a_living_rank(boxes, make_live_box, clock):
    dead, alive = make_live_box(0), make_live_box(1)
    end(boxes, dead)
    clock.sleep(GRACE_SECONDS + 100)
    boxes.prune()
    assert dead.path.exists()
    assert alive.path.exists()
    end(boxes, alive)
    clock.sleep(GRACE_SECONDS + 100)
    boxes.prune()
    assert not dead.path.exists()


def test_box_that_cannot_be_deleted_is_reported_until_it_is_gone(boxes, make_live_box, clock, monkeypatch):
    def refuse(path, **_):
        raise PermissionError(errno.EPERM, "Operation not permitted", path)

    box = make_live_box()
    end(boxes, box)
    clock.sleep(GRACE_SECONDS + 100)
    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", refuse)
        boxes.prune()
        lines = boxes.read().dropped
    line = f"1 dead rank of uid {os.geteuid()} fill memory until that user starts a rank: cannot delete {box.path}"
    assert any(dropped.startswith(line) for dropped in lines)
    boxes.prune()
    boxes.scan()
    assert not box.path.exists()
    assert "fill memory" not in str(boxes.read().dropped)


def bind_unused_socket(path):
    """Bind a socket that no process listens on."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
    return path


@pytest.fixture
def end_rank_and_prune(tmp_path, make_live_box, clock):
    """Return a function that ends a rank whose box names this socket, and prunes. `s` has the short socket paths."""

    def run(socket_path):
        boxes = Boxes(tmp_path, "node-a", clock=clock, socket_dir=tmp_path / "s")
        box = make_live_box(socket=str(socket_path))
        end(boxes, box)
        clock.sleep(GRACE_SECONDS + 100)
        boxes.prune()
        assert not box.path.exists()

    (tmp_path / "s").mkdir()
    return run


SHORT = "zmon-0123456789abcdef.sock"


def test_prune_deletes_the_socket_named_in_the_box(end_rank_and_prune, tmp_path):
    path = bind_unused_socket(tmp_path / "s" / SHORT)
    end_rank_and_prune(path)
    assert not path.exists()


@pytest.mark.parametrize("name", ["docker.sock", "zmon-1234.sock", f"deeper/{SHORT}"])
def test_prune_keeps_a_named_socket_with_a_foreign_name_or_folder(end_rank_and_prune, tmp_path, name):
    (tmp_path / "s/deeper").mkdir()
    path = bind_unused_socket(tmp_path / "s" / name)
    end_rank_and_prune(path)
    end_rank_and_prune(tmp_path / "s/deeper" / ".." / name)
    assert path.exists()


@pytest.mark.parametrize(
    "make",
    [Path.touch, Path.mkdir, lambda path: path.symlink_to(path.with_name("precious"))],
    ids=["file", "directory", "link"],
)
def test_prune_keeps_named_files_that_are_no_sockets(end_rank_and_prune, tmp_path, make):
    path, precious = tmp_path / "s" / SHORT, tmp_path / "s" / "precious"
    precious.write_text("data")
    make(path)
    end_rank_and_prune(path)
    assert os.path.lexists(path)
    assert precious.read_text() == "data"


# -- cost and lifetime -----------------------------------------------------------------------------------------


def test_proc_is_read_once_a_second_while_the_rank_makes_progress(boxes, make_live_box, clock, monkeypatch):
    """The read of /proc costs more than the rest of a scan, and a rank with progress is not stopped."""
    reads = []
    monkeypatch.setattr(process_table, "process_stat", lambda pid, proc: reads.append(pid))
    box = make_live_box()
    boxes.scan()
    reads.clear()
    for _ in range(20):
        clock.sleep(0.1)
        box.steps(1, seconds=0.0001)
        boxes.scan()
    assert len(reads) == 2
    reads.clear()
    for _ in range(20):
        clock.sleep(0.1)
        boxes.scan()
    assert len(reads) == 20


def test_thousand_boxes_of_dead_ranks_are_read_only_once_and_closed(tmp_path, clock, monkeypatch):
    """A job that crashes and restarts for a quarter of an hour leaves about a thousand boxes."""
    first = Box(tmp_path, clock, {"world_size": 1000})
    first.steps(3)
    content = first.path.read_bytes()
    for rank in range(1, 1000):
        path = first.path.with_name(f"rank-{rank}.box")
        path.touch()
        os.truncate(path, len(content))
        with path.open("r+b") as file:
            file.write(content[: CURRENT.ring + 10 * CURRENT.boundary_size])
    clock.sleep(120)
    boxes = Boxes(tmp_path, "node-a", clock=clock)
    boxes.scan()
    assert boxes.damaged == {}
    assert len(boxes._open) == 1000
    assert all(box.reader is None for box in boxes._open.values())
    reads, pread = [], os.pread
    monkeypatch.setattr(os, "pread", lambda *arguments: reads.append(arguments) or pread(*arguments))
    assert boxes.scan() == frozenset()
    assert list(boxes.ranks()) == []
    assert reads == []
    clock.sleep(900)
    boxes.prune()
    assert list(tmp_path.iterdir()) == []


def test_dead_rank_is_reported_in_its_final_state_after_its_file_is_closed(boxes, make_live_box, clock, scan_states):
    box, peer = make_live_box(0), make_live_box(1)
    box.steps(5)
    boxes.scan()
    box.steps(2)
    box.holder.end(signal.SIGKILL)
    boxes.scan()
    before = scan_states()[0]
    clock.sleep(NEWS_SECONDS + 10)
    assert boxes.files == {box.path: box.path.stat().st_ino, peer.path: peer.path.stat().st_ino}
    after = scan_states()[0]
    assert boxes.files == {peer.path: peer.path.stat().st_ino}
    assert (after.steps, after.exit_status, after.gone_seconds) == (7, "signal SIGKILL", pytest.approx(70, abs=0.1))
    assert (after.totals, after.device) == (before.totals, before.device)


def test_deleted_box_of_a_living_rank_is_read_until_the_rank_ends(boxes, make_live_box, clock, scan_states):
    box = make_live_box()
    boxes.scan()
    box.path.unlink()
    box.steps(3)
    assert scan_states()[0].steps == 3
    box.holder.end()
    assert boxes.scan() == {Suspicion(JOB, 0, "exited")}
    clock.sleep(NEWS_SECONDS + 10)
    assert scan_states() == {}


def test_box_of_a_rank_that_died_before_the_agent_started_has_a_grace_period(tmp_path, make_live_box, clock):
    """The rank hung for half an hour before its death, so the last update of its box is old."""
    box = make_live_box()
    box.steps(3)
    clock.sleep(1800)
    box.holder.end()
    boxes = Boxes(tmp_path, "node-a", clock=clock)
    boxes.read()
    assert box.path.exists()
    clock.sleep(GRACE_SECONDS + 1)
    boxes.scan()
    boxes.prune()
    assert not box.path.exists()


def test_prune_deletes_boxes_of_earlier_attempts_while_the_newest_runs(boxes, make_live_box, clock):
    earlier, newest = make_live_box(attempt=0), make_live_box(attempt=1)
    end(boxes, earlier)
    clock.sleep(GRACE_SECONDS + 1)
    boxes.scan()
    boxes.prune()
    assert not earlier.path.exists()
    assert newest.path.exists()
