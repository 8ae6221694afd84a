"""Tests of the lock of the directory of boxes, which a rank holds while it makes its box."""

import errno
import fcntl
import os
import threading
import time

import pytest

from zmon.box import living_launch
from zmon.box.living_launch import creation_lock


def test_rank_waits_until_the_one_before_it_has_made_its_box(tmp_path):
    other = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(other, fcntl.LOCK_EX)
    released = []

    def release():
        released.append(time.monotonic())
        os.close(other)

    threading.Timer(0.1, release).start()
    with creation_lock(tmp_path):
        assert released


def test_rank_does_not_wait_on_a_file_system_without_locks(tmp_path, monkeypatch):
    def flock(fd, operation):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", flock)
    monkeypatch.setattr(living_launch.time, "sleep", lambda seconds: pytest.fail("it waits"))
    with creation_lock(tmp_path):
        pass
