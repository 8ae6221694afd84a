"""Make step logs as another tool might write them, healthy by default."""

import json
import random


def rows(steps=400, ranks=4, slow=None, since=0, times=1.5, seconds=0.05, **changes):
    """Yield a row per rank and step. A rank computes for about `seconds`, and rank `slow` for `times` as long.

    Rank `slow` is slow from step `since` on. `changes` are columns that all rows get.
    """
    chance = random.Random(7)
    for step in range(1, steps + 1):
        self_seconds = [seconds * chance.lognormvariate(0, 0.1) for _ in range(ranks)]
        if slow is not None and step >= since:
            self_seconds[slow] *= times
        duration = max(self_seconds) + 0.2 * seconds
        for rank in range(ranks):
            yield {
                "job_id": "elsewhere", "attempt": 0, "rank": rank, "host": f"node-{rank // 2}", "step": step,
                "start": 1.8e9 + step * duration, "duration": duration, "samples": 32,
                "phase_data": 0.1 * self_seconds[rank], "phase_forward": 0.9 * self_seconds[rank],
                "exposed_all_reduce": duration - self_seconds[rank], "bytes_sent_all_reduce": 1000, **changes,
            }  # fmt: skip


def written(path, rows):
    """Write the rows as JSON lines and return the path."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def without(rows, *prefixes):
    """Yield the rows without the columns that start with one of these prefixes."""
    for row in rows:
        yield {name: value for name, value in row.items() if not name.startswith(prefixes)}
