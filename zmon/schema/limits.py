"""The limits of numbers, names and counts that come from outside: from a box, from an agent, from a file.

The reader of boxes, the hub and the offline readers apply the same limits. `Whole`, `Seconds` and `JobId` are types
that msgspec checks while it decodes, at no measurable cost; `check_rank` is the check of values that depend on each
other. A value beyond a limit is refused with its whole rank, because then nothing about that rank can be trusted.
"""

from __future__ import annotations

import re
from typing import Annotated

from msgspec import Meta

from zmon.schema.names import JOB_ID

MAX_WORLD_SIZE = 1 << 20  # ranks of a job; the largest synchronous jobs have about 100,000 GPUs
MAX_RANKS_OF_AGENT = 4096  # ranks in one report; a node has at most some hundred
MAX_NAMED_MISSING = 64  # missing ranks that a snapshot lists; the others are only counted
MAX_HOST_LETTERS = 253  # a DNS name
_HOST_NAME = re.compile(rf"[A-Za-z0-9._-]{{1,{MAX_HOST_LETTERS}}}")
_MAX_VERSION_LETTERS = 32  # an agent's have 16; the hub sends it back in the URL of its next request
_MAX_NUMBER = 1 << 62  # as for the counts in a box; sums of a few such numbers still fit into a float
_MAX_SECONDS = 1e11  # the year 5138 as unix time; a date can be computed from it

Whole = Annotated[int, Meta(ge=-_MAX_NUMBER, le=_MAX_NUMBER)]  # a count, an amount or an id
Seconds = Annotated[float, Meta(ge=-_MAX_SECONDS, le=_MAX_SECONDS)]  # a duration, an age or a unix time
Version = Annotated[str, Meta(max_length=_MAX_VERSION_LETTERS)]  # a digest of something that is sent only if it is new
# As names.JOB_ID. `$` alone would accept a line break at the end.
JobId = Annotated[str, Meta(pattern=rf"^{JOB_ID.pattern}$(?!\n)")]


def check_job_id(job_id: str) -> None:
    """Raise ValueError if this is not a job id."""
    if not JOB_ID.fullmatch(job_id):
        raise ValueError("its job id is not valid")


def check_rank(rank: int, world_size: int) -> None:
    """Raise ValueError if no job has this size, or if no job of this size has this rank."""
    if not 0 < world_size <= MAX_WORLD_SIZE:
        raise ValueError(
            f"it claims a world of {world_size:,} ranks (WORLD_SIZE, or the size of its process group); "
            f"zmon accepts 1 to {MAX_WORLD_SIZE:,}"
        )
    if not 0 <= rank < world_size:
        raise ValueError(f"it claims to be rank {rank:,} of {world_size:,}")


def host_name(name: str) -> str:
    """Return the name of a host without what no host name has: a name is part of commands that people copy."""
    if _HOST_NAME.fullmatch(name):
        return name
    letters = (letter if letter.isalnum() or letter in "-_.:" else "_" for letter in name[:MAX_HOST_LETTERS])
    return "".join(letters) or "unknown"
