"""Tests of what cannot be written.

An error is shown until a write succeeds, or every file is as in memory, and logged once a minute at most.
"""

import errno
import logging
from pathlib import Path

from zmon.hub.write_errors import LOG_SECONDS, RETRY_SECONDS, RetriedFiles, WriteErrors

PATH = Path("/data/findings.jsonl")
NOW = 1_800_000_000.0


def full():
    raise OSError(errno.ENOSPC, "No space left on device")


def test_error_is_shown_until_a_write_succeeds(caplog):
    errors = WriteErrors(logging.getLogger("zmon.hub"), "it is lost")
    with errors.watched(PATH):
        full()
    assert errors.error == "cannot write /data/findings.jsonl: No space left on device"
    assert "it is lost" in caplog.text
    with errors.watched(PATH):
        pass
    assert errors.error is None


def test_error_that_comes_and_goes_is_logged_once_a_minute(caplog):
    now = [0.0]
    errors = WriteErrors(logging.getLogger("zmon.hub"), "it is lost", lambda: now[0])
    for second in range(int(LOG_SECONDS) * 2):
        now[0] = float(second)
        with errors.watched(PATH):
            full()
        with errors.watched(PATH):
            pass
    assert len(caplog.records) == 2


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
