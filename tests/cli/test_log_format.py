"""Tests of a daemon's log: text from outside cannot forge a line of it, or change a terminal that shows it."""

import logging

from zmon.cli.log_format import PlainFormatter


def formatted(message, *arguments, error=None):
    """Return a warning of the hub as it is written to the log."""
    record = logging.LogRecord("zmon.hub", logging.WARNING, "", 0, message, arguments, None)
    if error is not None:
        record.exc_info = (type(error), error, error.__traceback__)
    return PlainFormatter().format(record)


def test_line_breaks_and_escape_sequences_of_a_message_stay_in_one_line():
    line = formatted("finding %s", "a\n2026-11-23 zmon.hub INFO all is well\x1b[2J\r\udcff")
    assert line.count("\n") == 0
    assert line.endswith("WARNING finding a 2026-11-23 zmon.hub INFO all is well\\x1b[2J \ufffd")


def test_lines_of_a_traceback_are_indented():
    try:
        raise ValueError("bad\n2026-11-23 zmon.hub INFO all is well\x1b[2J")
    except ValueError as error:
        lines = formatted("a pass failed", error=error).splitlines()
    assert lines[0].endswith("WARNING a pass failed")
    assert len(lines) > 3
    assert all(line.startswith("    ") for line in lines[1:])
    assert lines[-1] == "    2026-11-23 zmon.hub INFO all is well\\x1b[2J"
