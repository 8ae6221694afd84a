"""Names of the files of a rank besides its box, and how long all of them stay after its end.

The rank makes them; the agent, or the next rank of the user, deletes them. Whoever publishes or deletes a box holds the
lock (flock) of its folder, so that nobody deletes the box of a rank that has just started.
"""

from __future__ import annotations

import re
from pathlib import Path

from zmon.schema.plan import PLAN_FILE

GRACE_SECONDS = 900.0  # how long the files of a dead rank stay for people to read
SHORT_PATHS = Path("/tmp")  # folder of sockets whose path beside the box would be too long
_SHORT_NAME = re.compile(r"zmon-[0-9a-f]{16}\.sock")


def is_short_socket(name: str) -> bool:
    """Return True if a file in SHORT_PATHS has the name of a rank's socket."""
    return _SHORT_NAME.fullmatch(name) is not None


def is_plan(name: str) -> bool:
    """Return True if a file has the name of a plan, or of one that a rank did not finish."""
    return name == PLAN_FILE or name.startswith(f".{PLAN_FILE}.")
