"""Tests of files that are tried again: an error is shown until every file is as in memory."""

import errno
import logging

from zmon.files.retried_files import RETRY_SECONDS, RetriedFiles
from zmon.files.write_errors import WriteErrors

NOW = 1_800_000_000.0


def files(folder, full):
    """Return files whose names are in `full` as long as they do not fit on the disk, and the names of all attempts."""
    attempts = []

    def write(name):
        attempts.append(name)
        if name in full:
            raise OSError(errno.ENOSPC, "No space left on device")

    return RetriedFiles(WriteErrors(logging.getLogger("zmon.hub"), "it is lost"), folder.joinpath, write), attempts


def test_success_of_one_file_does_not_hide_the_error_of_another(tmp_path):
    store, _ = files(tmp_path, {"a"})
    store.write("a")
    store.write("b")
    assert store.error == f"cannot write {tmp_path}/a: No space left on device"
    assert store.unwritten == {"a"}


def test_unwritten_file_is_tried_again_every_few_seconds_until_it_is_written(tmp_path):
    full = {"a"}
    store, attempts = files(tmp_path, full)
    store.write("a")
    store.retry(NOW)
    store.retry(NOW + RETRY_SECONDS / 2)
    assert attempts == ["a", "a"]
    full.clear()
    store.retry(NOW + RETRY_SECONDS)
    store.retry(NOW + 2 * RETRY_SECONDS)
    assert attempts == ["a", "a", "a"]
    assert store.error is None
