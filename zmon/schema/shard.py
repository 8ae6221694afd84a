"""A shard: the part of all jobs that one of several hubs judges."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass

_TEXT = re.compile(r"(\d{1,4})/(\d{1,4})")


@dataclass(frozen=True)
class Shard:
    """Every job whose hash leaves the remainder `index` when it is divided by `count`."""

    index: int
    count: int

    def has(self, job_id: str) -> bool:
        """Return True if the job is in this shard. The hash (CRC-32) is the same on all hosts and in all versions."""
        return zlib.crc32(job_id.encode()) % self.count == self.index

    def all(self) -> tuple[Shard, ...]:
        """Return the shards into which the jobs are divided, this one among them."""
        return tuple(Shard(index, self.count) for index in range(self.count))

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"


def parse(text: str) -> Shard:
    """Return the shard in a text such as `0/4`, the first of four. Raises ValueError."""
    match = _TEXT.fullmatch(text)
    if match is None or int(match[1]) >= int(match[2]):
        raise ValueError(f"{text!r} is no shard: write 0/4, 1/4, 2/4 and 3/4 for four hubs")
    return Shard(int(match[1]), int(match[2]))
