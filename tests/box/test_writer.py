"""Tests of the writer of a box. It creates a complete, private box, or raises BoxUnavailable."""

import errno
import os
import shutil
import subprocess
import sys

import pytest

from tests.boxes import Box, can_lock, read_totals
from tests.build import JOB
from tests.places import REPOSITORY
from zmon.box import BoxWriter, box_path
from zmon.box.reader import BoxReader
from zmon.box.versions import CURRENT
from zmon.errors import BoxUnavailable


def test_box_is_private_in_the_folder_of_its_job_and_attempt_and_allocated_in_advance(tmp_path):
    box = Box(tmp_path / "boxes", identity={"rank": 3, "attempt": 2, "world_size": 4})
    assert box.path == tmp_path / "boxes" / JOB / "2" / "rank-3.box"
    stat = box.path.stat()
    assert (oct(stat.st_mode)[-4:], stat.st_size) == ("0600", CURRENT.file_size)
    assert stat.st_blocks * 512 >= CURRENT.file_size
    for directory in (tmp_path / "boxes", tmp_path / "boxes" / JOB, tmp_path / "boxes" / JOB / "2"):
        assert oct(directory.stat().st_mode)[-4:] == "0700"


def test_box_has_its_name_only_after_publish(tmp_path):
    path = box_path(tmp_path, JOB, 0, 0)
    writer = BoxWriter(path)
    assert not path.exists()
    writer.publish()
    assert list(path.parent.iterdir()) == [path]


def test_box_of_a_previous_run_is_replaced_and_stays_readable(tmp_path):
    old = Box(tmp_path)
    old.steps(3)
    reader = BoxReader(old.path)
    Box(tmp_path)
    assert read_totals(reader).steps == 3
    assert read_totals(BoxReader(old.path)).steps == 0
    reader.close()


def test_second_run_of_a_job_id_is_refused_while_the_first_is_alive(tmp_path, stand_in):
    path = Box(tmp_path).path
    first = stand_in()
    first.hold(path)
    with pytest.raises(BoxUnavailable) as caught:
        BoxWriter(path)
    assert f"process {first.pid} holds" in str(caught.value)
    assert "same job id" in str(caught.value)
    assert not can_lock(path)
    first.end()
    BoxWriter(path).publish()


def file_in_the_way(path, monkeypatch):
    """Create a box where a file has the name of the directory of boxes."""
    path.parents[2].write_text("not a directory")
    BoxWriter(path)


def full_file_system(path, monkeypatch):
    """Create a box on a file system without space."""

    def raise_no_space(fd, offset, size):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", raise_no_space)
    BoxWriter(path)


def deleted_directory(path, monkeypatch):
    """Create a box whose directory is deleted before it is published."""
    writer = BoxWriter(path)
    shutil.rmtree(path.parent)
    writer.publish()


@pytest.mark.parametrize(
    ("create", "reason"),
    [
        (file_in_the_way, "ZMON_BOX_DIR"),
        (full_file_system, r"No space left on device.*Free space"),
        (deleted_directory, "No such file"),
    ],
)
def test_box_that_cannot_be_created_is_an_error_of_a_single_line_and_leaves_no_file(
    tmp_path, monkeypatch, create, reason
):
    path = box_path(tmp_path / "boxes", JOB, 0, 0)
    with pytest.raises(BoxUnavailable, match=reason) as caught:
        create(path, monkeypatch)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.rglob("*rank-0*")) == []


def test_pipe_with_the_name_of_the_box_is_replaced(tmp_path):
    path = box_path(tmp_path, JOB, 0, 0)
    path.parent.mkdir(parents=True)
    os.mkfifo(path)
    BoxWriter(path).publish()
    assert path.is_file()


def test_two_writers_with_the_same_pid_have_a_file_each(tmp_path):
    """Processes with the same pid in two containers that share /dev/shm may create the same box."""
    path = box_path(tmp_path, JOB, 0, 0)
    writers = BoxWriter(path), BoxWriter(path)
    assert len(list(path.parent.iterdir())) == len(writers)


def test_discarded_box_is_deleted_alone(tmp_path):
    path = box_path(tmp_path, JOB, 0, 0)
    first, second = BoxWriter(path), BoxWriter(path)
    second.discard()
    first.publish()
    assert list(path.parent.iterdir()) == [path]


_RACER = """
import os
import sys
from dataclasses import replace
from pathlib import Path
from tests.boxes import IDENTITY
from zmon.box import BoxWriter
from zmon.errors import BoxUnavailable
from zmon.probe.edge import CHOSEN

print("ready", flush=True)
boxes = []  # a winner holds its box until all have tried
for path in iter(sys.stdin.readline, ""):
    try:
        box = BoxWriter(Path(path.strip()))
        box.identity(replace(IDENTITY, pid=os.getpid()))
        CHOSEN.make_timeline(box)
        try:
            box.publish()
        except BoxUnavailable:
            box.discard()
            raise
        boxes.append(box)
        print("won", flush=True)
    except BoxUnavailable as error:
        print("lost", error, flush=True)
"""


def test_exactly_1_of_many_simultaneous_starts_gets_the_box(tmp_path):
    command = [sys.executable, "-c", _RACER]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": REPOSITORY}
    racers = [subprocess.Popen(command, **pipes) for _ in range(12)]
    try:
        assert [racer.stdout.readline() for racer in racers] == ["ready\n"] * 12
        for race in range(3):
            path = box_path(tmp_path, JOB, race, 0)
            for racer in racers:
                print(path, file=racer.stdin, flush=True)
            lines = {racer.pid: racer.stdout.readline() for racer in racers}
            winners = [pid for pid, line in lines.items() if line == "won\n"]
            assert len(winners) == 1
            assert all(f"process {winners[0]} holds" in line for pid, line in lines.items() if pid not in winners)
            reader = BoxReader(path)
            assert (reader.holder(), reader.identity().pid) == (winners[0], winners[0])
            reader.close()
            assert list(path.parent.iterdir()) == [path]
    finally:
        for racer in racers:
            racer.kill()
            racer.communicate(timeout=10)
