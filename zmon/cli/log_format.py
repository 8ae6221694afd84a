"""The format of a daemon's log: a line for each message, so that no text from outside can forge one."""

from __future__ import annotations

import logging

from zmon.format import plain, plain_lines

_FORMAT = "%(asctime)s %(name)s %(levelname)s %(message)s"
_INDENT = "    "  # a line of a traceback begins with it; a line of the log begins with its time


class PlainFormatter(logging.Formatter):
    """Formats a record as one plain line, and the lines of its traceback below it, indented."""

    def __init__(self) -> None:
        super().__init__(_FORMAT)

    def formatMessage(self, record: logging.LogRecord) -> str:  # its name in the standard library
        """Return the line of the message."""
        record.message = plain(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: object) -> str:
        """Return the traceback, indented."""
        return _indented(super().formatException(ei))  # type: ignore[arg-type]

    def formatStack(self, stack_info: str) -> str:
        """Return the stack, indented."""
        return _indented(super().formatStack(stack_info))


def configure() -> None:
    """Log to standard error in this format, from level INFO on."""
    handler = logging.StreamHandler()
    handler.setFormatter(PlainFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])


def _indented(text: str) -> str:
    return "\n".join(_INDENT + line for line in plain_lines(text).split("\n"))
