"""Tells the exceptions of a rank that its owner or its launcher ends from those of a fault. Pure."""

from __future__ import annotations

import re

from zmon.schema.rank import LastWords

CANCELLED_CODES = ("143", "130", "129", "131")  # 128 + the number of the signal: the job has its own handler
# Ctrl-C, torchrun's exception for a signal, and the exceptions that frameworks raise on SIGTERM.
_CANCELLED_TYPE = re.compile(r"(^|\.)(KeyboardInterrupt|SignalException|SIGTERM\w*)$")


def is_cancellation(words: LastWords) -> bool:
    """Return True if these last words are an exception with which a rank obeys a signal."""
    if words.kind != "exception":
        return False
    if words.type == "builtins.SystemExit":
        return words.message in CANCELLED_CODES
    return _CANCELLED_TYPE.search(words.type) is not None
