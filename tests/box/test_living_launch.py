"""Tests of the lock on the directory of boxes, which a rank holds while it makes its box."""

import errno
import fcntl
import os
import threading

import pytest

from zmon.box import lock
from zmon.box.living_launch import creation_lock


def test_rank_waits_while_another_rank_makes_its_box(tmp_path):
    lock_of_another_rank = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(lock_of_another_rank, fcntl.LOCK_EX)
    is_released = threading.Event()

    def release():
        is_released.set()
        os.close(lock_of_another_rank)

    threading.Timer(0.1, release).start()
    with creation_lock(tmp_path):
        assert is_released.is_set()


def test_rank_does_not_wait_on_a_file_system_without_locks(tmp_path, monkeypatch):
    def flock(fd, operation):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", flock)
    monkeypatch.setattr(lock.time, "sleep", lambda seconds: pytest.fail("it waits"))
    with creation_lock(tmp_path):
        pass
