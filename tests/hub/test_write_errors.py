"""Test of what cannot be written: the error is logged once a minute at most."""

import errno
import logging
from pathlib import Path

from zmon.hub.write_errors import LOG_SECONDS, WriteErrors


def test_recurring_error_is_logged_once_a_minute(caplog):
    now = [0.0]
    errors = WriteErrors(logging.getLogger("zmon.hub"), "it is lost", lambda: now[0])
    for second in range(int(LOG_SECONDS) * 2):
        now[0] = float(second)
        with errors.watched(Path("/data/findings.jsonl")):
            raise OSError(errno.ENOSPC, "No space left on device")
        with errors.watched(Path("/data/findings.jsonl")):
            pass
    assert len(caplog.records) == 2
