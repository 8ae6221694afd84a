"""Tests of the limit on the log. A message that repeats is logged once in ten seconds, with the number held back."""

import logging

import pytest

from zmon.web.log_rate import INTERVAL_SECONDS, OncePerInterval


@pytest.fixture
def log_at():
    """Log a text at a time; return what is logged, or None."""
    now = [0.0]
    once = OncePerInterval(lambda: now[0])

    def log(seconds, text, *args):
        now[0] = seconds
        record = logging.LogRecord("asyncio", logging.ERROR, "", 0, text, args, None)
        return record.getMessage() if once.filter(record) else None

    return log


def test_repeated_message_is_logged_once_in_ten_seconds(log_at):
    assert log_at(0.0, "socket.accept() out of system resource\nsocket: a") is not None
    assert [log_at(0.01 * n, f"socket.accept() out of system resource\nsocket: {n}") for n in range(900)] == [
        None
    ] * 900
    line = log_at(INTERVAL_SECONDS + 0.1, "socket.accept() out of system resource\nsocket: b")
    assert "900 times more in the last 10 s" in line


def test_messages_that_differ_in_an_argument_count_as_one(log_at):
    assert log_at(0.0, "Error handling request from %s", "127.0.0.1") == "Error handling request from 127.0.0.1"
    assert log_at(1.0, "Error handling request from %s", "127.0.0.2") is None


def test_other_message_is_logged_at_once(log_at):
    log_at(0.0, "one")
    assert log_at(0.1, "another") == "another"


def test_many_different_messages_do_not_fill_memory(log_at):
    for number in range(1000):
        assert log_at(0.0, f"message {number}")
