"""Messages of the probe: each is written to stderr once."""

from __future__ import annotations

import contextlib
import os
import sys

_MAX_LINES = 20  # of one process; further messages are dropped
_complaints: set[str] = set()


def complain(line: str) -> None:
    """Write one line to stderr, once; a closed or broken stderr is ignored."""
    if line not in _complaints and len(_complaints) < _MAX_LINES and sys.stderr is not None:
        _complaints.add(line)
        with contextlib.suppress(Exception):
            try:
                descriptor = sys.stderr.fileno()
            except (OSError, ValueError, AttributeError):  # the job replaced sys.stderr
                print(f"zmon: {line}", file=sys.stderr)
            else:  # not through Python's buffer: if that cannot be flushed at exit, the exit code changes
                os.write(descriptor, f"zmon: {line}\n".encode("utf-8", "replace"))
