"""What the probe has to say: a line on stderr, once."""

from __future__ import annotations

import contextlib
import os
import sys

_complaints: set[str] = set()


def complain(line: str) -> None:
    """One line on stderr, once; a stderr that is closed or broken is no reason to fail."""
    if line not in _complaints and len(_complaints) < 20 and sys.stderr is not None:
        _complaints.add(line)
        with contextlib.suppress(Exception):
            try:
                descriptor = sys.stderr.fileno()
            except (OSError, ValueError, AttributeError):  # the job put something of its own there
                print(f"zmon: {line}", file=sys.stderr)
            else:  # past Python's buffer: what that cannot get rid of at the end changes the exit code
                os.write(descriptor, f"zmon: {line}\n".encode("utf-8", "replace"))
