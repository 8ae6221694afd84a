"""Tests of what cannot be written: an error is shown until a write succeeds, and logged once a minute at most."""

import errno
import logging
from pathlib import Path

from zmon.hub.write_errors import LOG_SECONDS, WriteErrors

PATH = Path("/data/findings.jsonl")


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


def test_recurring_error_is_logged_once_a_minute(caplog):
    now = [0.0]
    errors = WriteErrors(logging.getLogger("zmon.hub"), "it is lost", lambda: now[0])
    for second in range(int(LOG_SECONDS) * 2):
        now[0] = float(second)
        with errors.watched(PATH):
            full()
        with errors.watched(PATH):
            pass
    assert len(caplog.records) == 2
