"""The format of a daemon's log: one plain line for each record, so that no text from outside can forge a line."""

from __future__ import annotations

import logging
import textwrap

from zmon.format import plain, plain_lines


class PlainFormatter(logging.Formatter):
    """Formats a record as its time and its message in one line. The lines of a traceback are indented."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(name)s %(levelname)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # its name in the standard library
        record.message = plain(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: object) -> str:
        return _indented(super().formatException(ei))  # type: ignore[arg-type]

    def formatStack(self, stack_info: str) -> str:
        return _indented(super().formatStack(stack_info))


def _indented(text: str) -> str:
    return textwrap.indent(plain_lines(text), "    ", lambda line: True)
