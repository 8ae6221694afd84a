"""Tests of a reader while its file is truncated, restored, replaced or deleted.

The reader returns only written values, or raises an error of a single line.
"""

import contextlib
import os
import random
import threading
import time

import pytest

from tests.box.written import NUM_PARTS, check_parts
from zmon.box import layout
from zmon.box.reader import BoxReader
from zmon.box.versions import CURRENT
from zmon.errors import BoxError

SECONDS = 3.0  # how long the file is damaged at least
MOST_SECONDS = 60.0  # a busy machine may need longer, until each kind of result has occurred often enough
ENOUGH = 20  # results of each kind


class FileDamager(threading.Thread):
    """A thread that damages the file at random moments until `enough` is set."""

    def __init__(self, path, contents):
        super().__init__()
        self.path, self.contents = path, contents
        self.damages = (self.cut, self.replace, self.delete)
        self.chance = random.Random(3)
        self.num_damages = 0
        self.enough = threading.Event()

    def run(self):
        while not self.enough.is_set():
            self.chance.choice(self.damages)()
            self.num_damages += 1
            self.enough.wait(self.chance.random() * 0.001)

    def cut(self):
        """Truncate the file, mostly in its head, then write it again."""
        with self.path.open("r+b") as file:
            content = file.read()
            file.truncate(self.chance.randrange(self.chance.choice((CURRENT.ring, CURRENT.file_size))))
            self.enough.wait(self.chance.random() * 0.001)
            file.seek(0)
            file.write(content)

    def replace(self):
        """Replace the file by another box."""
        new = self.path.with_suffix(".new")
        new.write_bytes(self.chance.choice(self.contents))
        new.rename(self.path)

    def delete(self):
        """Delete the file for a moment."""
        self.path.unlink()
        self.enough.wait(self.chance.random() * 0.001)
        self.replace()


def test_box_changed_during_a_read_returns_only_written_values(boxes, tmp_path):
    path = tmp_path / "rank-0.box"
    path.write_bytes(boxes[0].data)
    written = {layout.PREFIX.unpack_from(content)[-1]: values for content, values in boxes}
    damager = FileDamager(path, [content for content, _ in boxes])
    damager.start()
    refused = set()
    num_opened = num_refused = num_read = 0
    try:
        begin = time.monotonic()
        while (seconds := time.monotonic() - begin) < MOST_SECONDS:
            if seconds > SECONDS and min(num_opened, num_refused, num_read, damager.num_damages) > ENOUGH:
                break
            try:
                reader = BoxReader(path)
            except (BoxError, OSError) as error:
                refused.add(str(error))
                num_refused += 1
                continue
            num_opened += 1
            for _ in range(5):
                num_read += check_parts(reader, written[reader.seed])
            reader.close()
    finally:
        damager.enough.set()
        damager.join(timeout=10)
    assert not [line for line in refused if "\n" in line]
    assert min(num_opened, num_refused, num_read, damager.num_damages) > ENOUGH


def test_open_reader_reads_a_deleted_box(boxes, tmp_path):
    """A person may delete the directory of the job while the agent has the box open."""
    path = tmp_path / "rank-0.box"
    path.write_bytes(boxes[0].data)
    reader = BoxReader(path)
    path.unlink()
    assert check_parts(reader, boxes[0].values) == NUM_PARTS
    reader.close()


def test_truncated_file_is_an_error_or_returns_written_values(boxes, tmp_path):
    path = tmp_path / "rank-0.box"
    path.write_bytes(boxes[0].data)
    reader = BoxReader(path)
    for size in range(CURRENT.ring + 2 * CURRENT.boundary_size, -1, -5):
        os.truncate(path, size)
        check_parts(reader, boxes[0].values)
        with pytest.raises(BoxError):
            BoxReader(path)
    with contextlib.suppress(BoxError):
        assert check_parts(reader, boxes[0].values) == 0
    reader.close()
